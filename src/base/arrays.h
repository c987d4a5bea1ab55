/*-------------------------------------------------------------------------
 *
 * arrays.h
 *	  The elements of an array of any number of dimensions, one after another.
 *
 * They are read in place, because an array of Datums would take more memory than the results that
 * callers make of them.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#ifndef GPUJOIN_ARRAYS_H
#define GPUJOIN_ARRAYS_H

#include "access/tupmacs.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

/* Number of elements between two checks for interrupts */
#define GJ_ELEMENTS_INTERVAL	65536

/*
 * Call add() for each element that is not NULL.  Returns true if any element is NULL.
 */
static inline bool
GjForEachElement(ArrayType *array, void (*add) (void *arg, Datum element), void *arg)
{
	int			nelems = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	char	   *element = ARR_DATA_PTR(array);
	uint8	   *not_null = ARR_NULLBITMAP(array);
	bool		has_nulls = false;
	int16		typlen;
	bool		typbyval;
	char		typalign;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &typlen, &typbyval, &typalign);

	for (int i = 0; i < nelems; i++)
	{
		if (i % GJ_ELEMENTS_INTERVAL == 0)
			CHECK_FOR_INTERRUPTS();

		if (not_null != NULL && (not_null[i / 8] & (1 << (i % 8))) == 0)
		{
			has_nulls = true;
			continue;
		}
		add(arg, fetch_att(element, typbyval, typlen));
		element = att_addlength_pointer(element, typlen, element);
		element = (char *) att_align_nominal(element, typalign);
	}
	return has_nulls;
}

#endif							/* GPUJOIN_ARRAYS_H */
