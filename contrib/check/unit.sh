# shellcheck shell=bash
# make check of the first build: unit tests, the fabric's own tests, corpora of
# the fuzz targets, the simulator with its coverage points, loading.

tests gcc
