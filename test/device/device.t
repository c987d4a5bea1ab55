#!/bin/sh
# device.t: the device test in the form that prove expects. make check-device provides the
# libraries and the program; a program run by hand needs no wrapper.
exec "$GPUJOIN_DEVICE_TEST" $GPUJOIN_DEVICE_LIBRARIES
