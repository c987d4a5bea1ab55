/*
 * api.cu
 *	  The exported table. Each entry checks its arguments and calls the file that does the
 *	  work.
 */
#include "library.cuh"

namespace gjd
{

/* device.cu */
gjd_status device_open(const gjd_open_params *, gjd_device **, gjd_error *);
gjd_status device_close(gjd_device *, gjd_error *);
gjd_status device_info(gjd_device *, gjd_device_info *, gjd_error *);
gjd_status memory_info(gjd_device *, gjd_memory_info *, gjd_error *);
gjd_status host_register(gjd_device *, void *, uint64_t, gjd_error *);
gjd_status host_unregister(gjd_device *, void *, gjd_error *);

namespace
{

/* Each has run on a card. */
constexpr uint64_t capabilities = GJD_CAN_TOP | GJD_CAN_REDUCE | GJD_CAN_GROUP_BY_VALUE |
								  GJD_CAN_DISTINCT | GJD_CAN_GROUP_BY_COLUMNS |
								  GJD_CAN_WEIGH | GJD_CAN_TELL_SHARED | GJD_CAN_PROVE_RESTS |
								  GJD_CAN_BATCH;

template <class Handle>
gjd_device *
device_of(Handle *handle)
{
	return handle ? handle->device : nullptr;
}

gjd_status
column_create(gjd_device *device, const gjd_column_params *given, gjd_column **out,
			  gjd_error *error)
{
	return guarded(device, error, [&] {
		gjd_column_params params;
		gjd_shape shape;

		require(device && out &&
					layout_take_params(&params, sizeof(params), given, LAYOUT_COLUMN_PARAMS) &&
					layout_take_shape(&shape, &params),
				"invalid column parameters");
		*out = create_column(device, shape, params.reserve_pages);
		return GJD_OK;
	});
}

gjd_status
column_reserve(gjd_column *column, uint64_t pages, gjd_error *error)
{
	return guarded(device_of(column), error, [&] {
		require(column, "no column");
		reserve_column(column, pages);
		return GJD_OK;
	});
}

gjd_status
column_write_pages(gjd_column *column, const gjd_page_head *heads, const void *images,
				   uint64_t count, uint64_t *accepted, uint64_t *ticket, gjd_error *error)
{
	return guarded(device_of(column), error, [&] {
		require(column && accepted && ticket && (count == 0 || (heads && images)) &&
					(uintptr_t) images % GJD_PAGE_ALIGN == 0,
				"invalid pages");
		*accepted = 0;
		*ticket = column->ticket;
		return write_pages(column, heads, (const char *) images, count, accepted, ticket);
	});
}

gjd_status
column_write_poll(gjd_column *column, uint64_t ticket, gjd_error *error)
{
	return guarded(device_of(column), error, [&] {
		require(column && ticket <= column->ticket, "invalid ticket");
		return poll_writes(column, ticket);
	});
}

gjd_status
column_info(gjd_column *column, gjd_column_info *info, gjd_error *error)
{
	return guarded(device_of(column), error, [&] {
		require(column && info, "no column");
		*info = gjd_column_info{column->pages,
								column->extents.size() * column->pages_per_extent,
								column->extents.size() * column->extent_bytes,
								column->applied,
								column->ignored,
								column->users};
		return GJD_OK;
	});
}

gjd_status
column_versions(gjd_column *column, uint64_t first, uint64_t count, uint64_t *versions,
				gjd_error *error)
{
	return guarded(device_of(column), error, [&] {
		require(column && (count == 0 || versions), "no column");
		for (uint64_t i = 0; i < count; i++)
		{
			bool held = first < column->pages && i < column->pages - first;

			versions[i] = held ? column->versions[first + i] : 0;
		}
		return GJD_OK;
	});
}

gjd_status
column_destroy(gjd_column *column, gjd_error *error)
{
	return guarded(device_of(column), error, [&] {
		require(column, "no column");
		return destroy_column(column);
	});
}

gjd_status
keyset_create(gjd_device *device, const gjd_keyset_params *given, gjd_keyset **out,
			  gjd_error *error)
{
	return guarded(device, error, [&] {
		gjd_keyset_params params;

		require(device && out &&
					layout_take_params(&params, sizeof(params), given, LAYOUT_KEYSET_PARAMS) &&
					layout_keyset_is_valid(&params),
				"invalid key set parameters");
		if (params.rests != nullptr && (GJD_CAN_PROVE_RESTS & capabilities) == 0)
			throw_status(GJD_UNSUPPORTED, "the library cannot do this");
		*out = create_keyset(device, &params);
		return GJD_OK;
	});
}

gjd_status
keyset_info(gjd_keyset *keyset, gjd_keyset_info *info, gjd_error *error)
{
	return guarded(device_of(keyset), error, [&] {
		require(keyset && info, "no key set");
		*info = gjd_keyset_info{keys_in(keyset), keyset->bytes, keyset->strategy};
		return GJD_OK;
	});
}

gjd_status
keyset_destroy(gjd_keyset *keyset, gjd_error *error)
{
	return guarded(device_of(keyset), error, [&] {
		require(keyset, "no key set");
		destroy_keyset(keyset);
		return GJD_OK;
	});
}

gjd_status
match_begin(gjd_column *column, gjd_keyset *keyset, const gjd_match_params *given,
			gjd_match **out, gjd_error *error)
{
	return guarded(device_of(column), error, [&] {
		gjd_match_params params;
		gjd_reduction reduction;

		require(column && keyset && out &&
					layout_take_params(&params, sizeof(params), given, LAYOUT_MATCH_PARAMS) &&
					(params.reduction == nullptr ||
					 layout_take_params(&reduction, sizeof(reduction), params.reduction,
										LAYOUT_REDUCTION)) &&
					!column->destroyed && !keyset->destroyed &&
					column->device == keyset->device &&
					layout_match_is_valid(&params, params.reduction ? &reduction : nullptr,
										  &column->shape),
				"invalid match parameters");
		require(column->shape.key_bytes == keyset->key_bytes,
				"key widths of column and set differ");
		require((params.rest_column > 0) == keyset->has_rests,
				"only one of column and set has rests");
		require(params.reduction == nullptr || gjd_keys_are_covered(&reduction, keys_in(keyset)),
				"not a weight or number for each key");
		if ((params.reduction != nullptr &&
			 (gjd_reduction_capability(&reduction) & ~capabilities) != 0) ||
			(params.top.limit > 0 && (GJD_CAN_TOP & capabilities) == 0))
			throw_status(GJD_UNSUPPORTED, "the library cannot do this");
		*out = begin_match(column, keyset, &params, params.reduction ? &reduction : nullptr);
		return GJD_OK;
	});
}

gjd_status
match_poll(gjd_match *match, gjd_match_state *state, gjd_error *error)
{
	return guarded(device_of(match), error, [&] {
		require(match && state && !match->ending, "no match");
		memset(state, 0, sizeof(*state));
		gjd_status status = poll_match(match);

		if (match->state.ready)
			*state = match->state;
		return status;
	});
}

gjd_status
match_next(gjd_match *match, void *buffer, uint64_t capacity, gjd_chunk *chunk, gjd_error *error)
{
	return guarded(device_of(match), error, [&] {
		require(match && buffer && capacity > 0 && chunk && !match->ending, "invalid buffer");
		require(match->state.ready, "match is not ready");
		return next_chunk(match, (char *) buffer, capacity, chunk);
	});
}

gjd_status
match_reduced(gjd_match *match, gjd_reduced *reduced, gjd_error *error)
{
	return guarded(device_of(match), error, [&] {
		require(match && reduced && reduced->struct_size >= sizeof(*reduced) &&
					match->reduction != nullptr && match->state.ready && !match->ending,
				"no reduction that is ready");
		uint32_t size = reduced->struct_size;

		*reduced = match->reduction->state;
		reduced->struct_size = size;
		return GJD_OK;
	});
}

gjd_status
match_groups(gjd_match *match, void *buffer, uint64_t capacity, gjd_chunk *chunk,
			 gjd_error *error)
{
	return guarded(device_of(match), error, [&] {
		require(match && buffer && capacity > 0 && chunk && match->reduction != nullptr &&
					match->state.ready && !match->ending,
				"no reduction that is ready");
		return next_groups(match, buffer, capacity, chunk);
	});
}

gjd_status
match_end(gjd_match *match, gjd_error *error)
{
	return guarded(device_of(match), error, [&] {
		require(match, "no match");
		return end_match(match);
	});
}

gjd_status
batch_begin(gjd_device *device, gjd_error *error)
{
	return guarded(device, error, [&] {
		require(device && !device->batch.open, "no device, or a batch is open");
		device->batch.open = true;
		return GJD_OK;
	});
}

gjd_status
batch_end(gjd_device *device, gjd_batch_info *info, gjd_error *error)
{
	return guarded(device, error, [&] {
		require(device && device->batch.open, "no batch is open");
		device->batch.open = false;
		flush_batch(device);
		if (info != nullptr)
			*info = gjd_batch_info{device->batch.made, device->batch.served};
		return GJD_OK;
	});
}

const gjd_api api = {
	GJD_API_VERSION,
	sizeof(gjd_api),
	"cuda",
	device_open,
	device_close,
	device_info,
	memory_info,
	host_register,
	host_unregister,
	column_create,
	column_reserve,
	column_write_pages,
	column_write_poll,
	column_info,
	column_versions,
	column_destroy,
	keyset_create,
	keyset_info,
	keyset_destroy,
	match_begin,
	match_poll,
	match_next,
	match_end,
	nullptr,
	capabilities,
	match_reduced,
	match_groups,
	batch_begin,
	batch_end,
};

}  // namespace
}  // namespace gjd

extern "C" __attribute__((visibility("default"))) const gjd_api *
gjd_get_api(uint32_t version)
{
	return version == GJD_API_VERSION ? &gjd::api : nullptr;
}
