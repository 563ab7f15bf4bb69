"""One kind of input a file: the only code that opens things. Readers turn what they find into facts with evidence."""
