#!/bin/sh
# helper.t: the helper's test in the form that prove expects; make check-helper sets the paths.
exec "$GPUJOIN_HELPER_TEST" ./gpujoin_helper "$PWD/gpujoin_reference.so"
