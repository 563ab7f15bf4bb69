#!/bin/bash
python -u -m cap.train experiments/small.yml 2> stderr.log
rc=$?
tail -n 1 stderr.log
exit $rc
