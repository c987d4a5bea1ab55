/*
 * keyset.c
 *	  Key sets of the reference library: sorted arrays, which are searched by bisection.
 */
#include "reference.h"

#include <errno.h>
#include <stdlib.h>

static void
free_keyset(gjd_keyset *keyset)
{
	keyset->device->scratch_used -= keyset->bytes;
	keyset->device->keysets--;
	free(keyset->keys);
	free(keyset->rests);
	free(keyset);
}

void
release_keyset(gjd_keyset *keyset)
{
	if (keyset->destroyed && keyset->users == 0)
		free_keyset(keyset);
}

static gjd_status
copy_keys(gjd_keyset *keyset, const gjd_keyset_params *params, gjd_error *error)
{
	for (uint64_t i = 0; i < params->count; i++)
	{
		int64_t key = params->keys[i];
		bool equal = i > 0 && key == params->keys[i - 1];

		if ((i > 0 && key < params->keys[i - 1]) ||
			(equal && (params->rests == NULL || params->rests[i] <= params->rests[i - 1])))
			return fail(error, GJD_INVALID, 0, "keys do not ascend strictly");
		if (params->rests != NULL)
			keyset->rests[i] = params->rests[i];
		if (keyset->key_bytes == 8 || (key >= INT32_MIN && key <= INT32_MAX))
			keyset->keys[keyset->count++] = key;
	}
	return GJD_OK;
}

gjd_status
keyset_create(gjd_device *device, const gjd_keyset_params *given, gjd_keyset **out,
			  gjd_error *error)
{
	gjd_keyset_params params;
	uint32_t delay;
	gjd_status status;

	if (device == NULL || out == NULL ||
		!layout_take_params(&params, sizeof(params), given, LAYOUT_KEYSET_PARAMS) ||
		!layout_keyset_is_valid(&params))
		return fail(error, GJD_INVALID, 0, "invalid key set parameters");
	status = play_fault(device, GJD_AT_KEYSET, &delay, error);
	if (status != GJD_OK)
		return status;
	bool proves = params.rests != NULL;
	uint64_t bytes = KEPT_BYTES + params.count * (params.key_bytes + (proves ? 8 : 0));

	status = charge(device, bytes, 0, error);
	if (status != GJD_OK)
		return status;

	gjd_keyset *keyset = calloc(1, sizeof(*keyset));
	int64_t *keys = malloc((params.count + 1) * sizeof(*keys));
	int64_t *rests = proves ? malloc((params.count + 1) * sizeof(*rests)) : NULL;

	if (keyset == NULL || keys == NULL || (proves && rests == NULL))
	{
		device->scratch_used -= bytes;
		free(keyset);
		free(keys);
		free(rests);
		return fail(error, GJD_NO_HOST_MEMORY, ENOMEM, "out of memory");
	}
	keyset->device = device;
	keyset->key_bytes = params.key_bytes;
	keyset->keys = keys;
	keyset->rests = rests;
	keyset->bytes = bytes;
	device->keysets++;
	status = copy_keys(keyset, &params, error);
	if (status != GJD_OK)
	{
		free_keyset(keyset);
		return status;
	}
	*out = keyset;
	return GJD_OK;
}

gjd_status
keyset_info(gjd_keyset *keyset, gjd_keyset_info *info, gjd_error *error)
{
	if (keyset == NULL || info == NULL)
		return fail(error, GJD_INVALID, 0, "no key set");
	info->count = keyset->count;
	info->bytes = keyset->bytes;
	info->strategy = keyset->count ? GJD_BY_SEARCH : GJD_BY_NOTHING;
	return GJD_OK;
}

gjd_status
keyset_destroy(gjd_keyset *keyset, gjd_error *error)
{
	if (keyset == NULL)
		return fail(error, GJD_INVALID, 0, "no key set");
	keyset->destroyed = true;
	release_keyset(keyset);
	return GJD_OK;
}

/* Compares a pair of the set with a key and a rest, which only counts if the set has rests. */
static int
compare_pair(const gjd_keyset *keyset, uint64_t i, int64_t key, int64_t rest)
{
	if (keyset->keys[i] != key)
		return keyset->keys[i] > key ? 1 : -1;
	if (keyset->rests == NULL || keyset->rests[i] == rest)
		return 0;
	return keyset->rests[i] > rest ? 1 : -1;
}

uint64_t
rank_of(const gjd_match *match, const char *image, uint32_t slot)
{
	const gjd_keyset *keyset = match->keyset;
	const gjd_shape *shape = &match->column->shape;
	int64_t key = value_at(shape, image, slot, 0);
	int64_t rest = match->rest_column > 0 ? value_at(shape, image, slot, match->rest_column) : 0;
	uint64_t low = 0;
	uint64_t high = keyset->count;

	if (match->rest_column > 0 && is_null(shape, image, slot, match->rest_column - 1))
		return keyset->count;
	while (low < high)
	{
		uint64_t mid = low + (high - low) / 2;

		if (compare_pair(keyset, mid, key, rest) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low < keyset->count && compare_pair(keyset, low, key, rest) == 0 ? low
																			: keyset->count;
}
