/*
 * keyset.cu
 *	  Key sets: choice of the strategy, memory, and transfer of the keys to the device.
 *
 * Keys are narrowed to the column's width while they are checked and copied on the host, once,
 * because they may be in memory that other processes write. Everything else is built on the device:
 * 4 or 8 bytes a key cross the bus, and as many for its rest, instead of filters and tables, which
 * are larger.
 */
#include "library.cuh"

#include <algorithm>
#include <cstdlib>

namespace gjd
{

namespace
{

/* ---- choice -------------------------------------------------------------------------------- */

/* Returns the shared memory left for a filter beside the candidates of the warps, in words. */
uint32_t
filter_room(const gjd_device *device, bool exact)
{
	constexpr uint32_t warps = policy::match_wide::threads / 32;
	uint32_t bytes = device->shared_limit - policy::shared_margin;

	if (!exact)
		bytes -= warps * policy::match_wide::kept_bytes;
	return bytes / 16 * 4;
}

uint32_t
one_bit_words(const gjd_keyset *keyset)
{
	uint64_t bits = (uint64_t) 1 << 15;

	while (bits < keyset->count * policy::one_bit_bits_a_key)
		bits *= 2;
	return (uint32_t) std::min<uint64_t>(bits / 32, (uint32_t) 1 << 30);
}

uint32_t
two_bits_words(const gjd_keyset *keyset)
{
	uint32_t most = std::min(filter_room(keyset->device, false), policy::two_bits_most_words);

	return (uint32_t) std::min<uint64_t>(std::max<uint64_t>(keyset->count, 1024), most);
}

/* Returns the words of the filter before a structure in device memory; 0 if it would not pay. */
uint32_t
prefilter_words(const gjd_keyset *keyset, bool exact)
{
	uint64_t words = filter_room(keyset->device, exact);
	bool pays = words * 32 * 10 >= keyset->count * policy::prefilter_least_bits_a_tenth;

	return pays ? (uint32_t) words : 0;
}

bool
fits(const gjd_keyset *keyset, gjd_strategy strategy)
{
	uint64_t span = (uint64_t) keyset->greatest - (uint64_t) keyset->least;

	switch (strategy)
	{
		case GJD_BY_CONSTANTS:
			return keyset->count <= policy::most_constants;
		case GJD_BY_SPAN:
			return span < (uint64_t) filter_room(keyset->device, true) * 32 - 1;
		case GJD_BY_ONE_BIT:
			return one_bit_words(keyset) <= std::min(filter_room(keyset->device, false),
													 policy::one_bit_most_bits / 32);
		case GJD_BY_TWO_BITS:
			return (uint64_t) two_bits_words(keyset) * 32 >=
				   keyset->count * policy::two_bits_bits_a_key;
		case GJD_BY_GLOBAL_SPAN:
			return span < policy::global_span_most_bits - 1;
		case GJD_BY_GLOBAL_BLOOM:
			return true;
		default:
			return false;
	}
}

gjd_strategy
choose(const gjd_keyset *keyset, gjd_strategy wanted)
{
	if (keyset->count == 0)
		return GJD_BY_NOTHING;
	if (wanted != GJD_BY_AUTO)
	{
		require(fits(keyset, wanted), "strategy does not fit the key set");
		return wanted;
	}
	for (gjd_strategy s : {GJD_BY_CONSTANTS, GJD_BY_SPAN, GJD_BY_ONE_BIT, GJD_BY_TWO_BITS,
						   GJD_BY_GLOBAL_SPAN})
		if (fits(keyset, s))
			return s;
	return GJD_BY_GLOBAL_BLOOM;
}

/* ---- memory -------------------------------------------------------------------------------- */

uint64_t
rounded(uint64_t bytes)
{
	return (bytes + 255) / 256 * 256;
}

/* Computes the sizes of the parts; those that a strategy does not use stay 0. */
void
size_parts(gjd_keyset *keyset)
{
	keyset_parts &parts = keyset->parts;
	uint64_t span = (uint64_t) keyset->greatest - (uint64_t) keyset->least;
	bool table = false;

	switch (keyset->strategy)
	{
		case GJD_BY_CONSTANTS: /* parameters of the scan */
			break;
		case GJD_BY_SPAN:
			parts.filter_words = (uint32_t) ((span + 1) / 32 + 1);
			break;
		case GJD_BY_ONE_BIT:
			parts.filter_words = one_bit_words(keyset);
			table = true;
			break;
		case GJD_BY_TWO_BITS:
			parts.filter_words = two_bits_words(keyset);
			table = true;
			break;
		case GJD_BY_GLOBAL_SPAN:
			parts.filter_words = prefilter_words(keyset, true);
			parts.global_words = (uint32_t) ((span + 1) / 32 + 1);
			break;
		default:
			parts.filter_words = prefilter_words(keyset, false);
			parts.global_words = (uint32_t) std::min<uint64_t>(
				std::max<uint64_t>(keyset->count * policy::bloom_bits_a_key / 32, 1024),
				policy::bloom_most_bytes / 4);
			table = true;
	}
	parts.filter_words = (parts.filter_words + 3) / 4 * 4;
	if (table)
		parts.buckets = (uint32_t) ((double) keyset->count /
									policy::keys_a_bucket(keyset->key_bytes)) + 1;
}

/*
 * Allocates memory and places the parts: keys, then memory that must initially be zero, then the
 * table. The counters of the first match are in the zeroed part, so that it need not clear them.
 */
void
place_parts(gjd_keyset *keyset, char **zero, uint64_t *zero_bytes)
{
	keyset_parts &parts = keyset->parts;
	uint64_t keys = rounded(keyset->input_bytes);
	uint64_t filter = rounded((uint64_t) parts.filter_words * 4);
	uint64_t global = rounded((uint64_t) parts.global_words * 4);
	uint64_t fill = rounded((uint64_t) parts.buckets * 4);

	*zero_bytes = policy::totals_bytes + filter + global + fill;
	keyset->bytes = keys + *zero_bytes + (uint64_t) parts.buckets * 32;
	keyset->memory = take_scratch(keyset->device, &keyset->bytes);
	parts.keys = keyset->memory + keyset->distinct_at;
	*zero = keyset->memory + keys;
	keyset->zeros = (uint64_t *) *zero;
	parts.filter = (uint32_t *) (*zero + policy::totals_bytes);
	parts.global = (uint32_t *) (*zero + policy::totals_bytes + filter);
	parts.fill = (uint32_t *) (*zero + policy::totals_bytes + filter + global);
	parts.table = *zero + *zero_bytes;
}

/* ---- upload and build ---------------------------------------------------------------------- */

/* Sets what depends on the n distinct keys alone. */
template <class Key>
void
note_keys(gjd_keyset *keyset, const Key *keys, uint64_t n)
{
	keyset->count = n;
	if (n == 0)
		return;
	keyset->least = keys[0];
	keyset->greatest = keys[n - 1];
	for (uint32_t i = 0; i < policy::most_constants; i++)
		keyset->constants[i] = keys[i < n ? i : 0];
}

/* Copies and checks the keys, each read once; drops those that Key cannot hold. */
template <class Key>
void
copy_keys(gjd_keyset *keyset, const gjd_keyset_params *params, Key *to)
{
	const volatile int64_t *from = params->keys;
	int64_t last = 0;
	uint64_t n = 0;
	bool ascending = true;

	for (uint64_t i = 0; i < params->count; i++)
	{
		int64_t key = from[i];

		ascending &= i == 0 || key > last;
		last = key;
		to[n] = (Key) key;
		n += (int64_t) (Key) key == key;
	}
	require(ascending, "keys do not ascend strictly");
	keyset->input_bytes = n * sizeof(Key);
	note_keys(keyset, to, n);
}

/*
 * The same for keys with rests: first come the keys, then the rests, then the distinct keys, unless
 * the keys are distinct already.
 */
void
copy_pairs(gjd_keyset *keyset, const gjd_keyset_params *params, int64_t *keys)
{
	const volatile int64_t *its_keys = params->keys;
	const volatile int64_t *its_rests = params->rests;
	uint64_t count = params->count;
	int64_t *rests = keys + count;
	int64_t *distinct = rests + count;
	uint64_t n = 0;
	bool ascending = true;

	for (uint64_t i = 0; i < count; i++)
	{
		bool differs;

		keys[i] = its_keys[i];
		rests[i] = its_rests[i];
		differs = i == 0 || keys[i] != keys[i - 1];
		ascending &= i == 0 || keys[i] > keys[i - 1] || (!differs && rests[i] > rests[i - 1]);
		if (differs)
			distinct[n++] = keys[i];
	}
	require(ascending, "keys do not ascend strictly");
	keyset->n_pairs = count;
	keyset->distinct_at = n < count ? 2 * count * sizeof(int64_t) : 0;
	keyset->input_bytes = (2 * count + (n < count ? n : 0)) * sizeof(int64_t);
	note_keys(keyset, distinct, n);
}

/*
 * Has a kernel fetch the keys, build the set and report its own end. The set waits for that
 * report only after a successful launch: a failed one leaves nothing running.
 */
void
fetch_and_build(gjd_keyset *keyset, char *zero, uint64_t zero_bytes)
{
	uint64_t vectors = (keyset->input_bytes + 15) / 16;

	keyset->built_word = (uint32_t *) (keyset->locked + vectors * 16);
	*keyset->built_word = 0;
	launch_build(keyset, zero, zero_bytes,
				 key_transfer{(const uint4 *) keyset->locked, (uint4 *) keyset->memory,
							  (uint32_t) vectors, keyset->built_word});
	keyset->building = true;
	keyset->device->building.push_back(keyset);
}

void
copy_and_build(gjd_keyset *keyset, const void *keys, char *zero, uint64_t zero_bytes)
{
	gjd_device *device = keyset->device;

	keyset->built = take_event(device);
	keyset->building = true;
	device->building.push_back(keyset);
	check(cudaMemcpyAsync(keyset->memory, keys, keyset->input_bytes, cudaMemcpyHostToDevice,
						  device->in),
		  "could not copy keys");
	check(cudaEventRecord(keyset->built, device->in), "could not record an event");
	check(cudaStreamWaitEvent(device->execute, keyset->built, 0), "could not order streams");
	launch_build(keyset, zero, zero_bytes, key_transfer{});
	check(cudaEventRecord(keyset->built, device->execute), "could not record an event");
}

void
upload_and_build(gjd_keyset *keyset, const void *keys)
{
	char *zero;
	uint64_t zero_bytes;

	size_parts(keyset);
	place_parts(keyset, &zero, &zero_bytes);
	if (keyset->locked != nullptr && is_built_by_block(keyset, zero_bytes))
		fetch_and_build(keyset, zero, zero_bytes);
	else
		copy_and_build(keyset, keys, zero, zero_bytes);
}

/*
 * Returns true if the build no longer uses its inputs. The device writes the word as its last
 * action.
 */
bool
is_built(const gjd_keyset *keyset)
{
	if (keyset->built_word == nullptr)
		return has_happened(keyset->built);
	if (*keyset->built_word == 0)
		return false;
	__sync_synchronize();
	return true;
}

/* Releases the page-locked copy of the keys. */
void
give_keys(gjd_keyset *keyset)
{
	if (keyset->locked)
		give_locked(keyset->device, keyset->locked, keyset->locked_bytes);
	keyset->locked = nullptr;
}

void
free_keyset(gjd_keyset *keyset)
{
	gjd_device *device = keyset->device;

	give_scratch(device, keyset->memory, keyset->bytes);
	give_keys(keyset);
	if (keyset->built)
		give_event(device, keyset->built);
	device->keysets--;
	delete keyset;
}

/*
 * Page-locked memory for the keys in transfer, rounded up to whole vectors, and a word after
 * them; or, for giant sets, ordinary memory.
 */
class key_buffer
{
  public:
	key_buffer(gjd_keyset *keyset, uint64_t bytes)
	{
		keyset->locked_bytes = bytes + 32;
		memory = keyset->locked = take_locked(keyset->device, &keyset->locked_bytes);
		if (memory == nullptr)
			memory = plain_ = malloc(std::max<uint64_t>(bytes, 8));
		if (memory == nullptr)
			throw std::bad_alloc();
	}
	~key_buffer()
	{
		free(plain_);
	}
	key_buffer(const key_buffer &) = delete;
	key_buffer &operator=(const key_buffer &) = delete;

	void *memory;

  private:
	void *plain_ = nullptr;
};

}  // namespace

gjd_keyset *
create_keyset(gjd_device *device, const gjd_keyset_params *params)
{
	reap_keysets(device, false);

	postponing postponed(device);
	gjd_keyset *keyset = new gjd_keyset();

	keyset->device = device;
	keyset->key_bytes = params->key_bytes;
	keyset->has_rests = params->rests != nullptr;
	device->keysets++;
	try
	{
		key_buffer buffer(keyset, params->count * params->key_bytes * (keyset->has_rests ? 3 : 1));

		if (keyset->has_rests)
			copy_pairs(keyset, params, (int64_t *) buffer.memory);
		else if (params->key_bytes == 4)
			copy_keys(keyset, params, (int32_t *) buffer.memory);
		else
			copy_keys(keyset, params, (int64_t *) buffer.memory);
		keyset->strategy = choose(keyset, params->strategy);
		if (keyset->strategy != GJD_BY_NOTHING)
			upload_and_build(keyset, buffer.memory);
		else
			give_keys(keyset);
	}
	catch (...)
	{
		if (!keyset->building)
			free_keyset(keyset);
		else
			destroy_keyset(keyset);
		throw;
	}
	return keyset;
}

void
destroy_keyset(gjd_keyset *keyset)
{
	keyset->destroyed = true;
	if (keyset->building)
		reap_keysets(keyset->device, false);
	else
		release_keyset(keyset);
}

void
release_keyset(gjd_keyset *keyset)
{
	if (keyset->destroyed && keyset->users == 0 && !keyset->building)
		free_keyset(keyset);
}

/*
 * Releases the inputs of completed builds, of all if the device is idle. Builds run in the order
 * in which they were begun, on one stream: after the first that is not complete, none is.
 */
void
reap_keysets(gjd_device *device, bool all)
{
	while (!device->building.empty() && (all || is_built(device->building.front())))
	{
		gjd_keyset *keyset = device->building.front();

		device->building.erase(device->building.begin());
		keyset->building = false;
		give_keys(keyset);
		release_keyset(keyset);
	}
}

}  // namespace gjd
