#!/bin/sh
# helper.t: the helper's test as prove wants it; the paths come from make check-helper.
exec "$GPUJOIN_HELPER_TEST" ./gpujoin_helper ./gpujoin_reference.so
