#!/bin/sh
# device.t: the device test as prove wants it. The libraries and the program come from make
# check-device; a program run by hand needs no wrapper.
exec "$GPUJOIN_DEVICE_TEST" $GPUJOIN_DEVICE_LIBRARIES
