#!/usr/bin/env bash
# Says how full the disk below a folder is; warns from 90 % on (or when the quota file says so).
set -u
used=$(df --output=pcent "$1" | tail -1 | tr -dc 0-9)
quota=${QUOTA_PERCENT:-93}
[ "$quota" -gt "$used" ] && used=$quota
if [ "$used" -ge 90 ]; then
  echo "WARNING: $1 is ${used} % full, saving may fail: please remove what is not needed" >&2
fi
