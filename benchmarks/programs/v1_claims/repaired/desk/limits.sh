# Rules of the shared machine, read by every job.
ulimit -c 0                 # no core files
ulimit -f $((2 * 1024 * 1024)) # no file above this on the scratch disk (KiB): somebody's log once filled it
umask 027
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
