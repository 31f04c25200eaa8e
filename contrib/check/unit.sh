# shellcheck shell=bash
# make check of the first build: unit tests, the fabric's own tests, corpora of
# the fuzz targets, a little of the simulator, loading.

tests gcc
