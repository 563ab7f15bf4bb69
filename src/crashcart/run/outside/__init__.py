"""The job seen from outside, once a second: its processes and their roles, memory groups, disks, cards; read by hand from /proc."""
