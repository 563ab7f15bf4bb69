import h5py


class Sink:
    """A table that grows: one row for each patch and view."""

    def __init__(self, path, width):
        self.file = h5py.File(path, "w")
        self.rows = self.file.create_dataset("features", (0, width), maxshape=(None, width), dtype="f8", chunks=(64, width))
        self.grade = self.file.create_dataset("grade", (0,), maxshape=(None,), dtype="i4", chunks=(4096,))

    def append(self, rows, grade):
        at = len(self.rows)
        self.rows.resize(at + len(rows), 0)
        self.grade.resize(at + len(rows), 0)
        self.rows[at:], self.grade[at:] = rows, grade
        self.file.flush()
