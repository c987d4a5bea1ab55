/*
 * cards.cu
 *	  Which card has the most free memory. This is asked of the driver's management library: CUDA
 *	  itself would have to take memory of each card.
 */
#include "library.cuh"

#include <dlfcn.h>
#include <glob.h>
#include <cstdlib>

namespace gjd
{

namespace
{

/* Parts of the library's interface, which does not change */
constexpr const char *library_name = "libnvidia-ml.so.1";
constexpr int success = 0;
constexpr unsigned uuid_bytes = 96;

typedef struct card_state *card;

struct memory_state
{
	unsigned long long total, free, used;
};

class management
{
  public:
	management() : library_(dlopen(library_name, RTLD_NOW | RTLD_LOCAL))
	{
		int (*init)() = nullptr;

		started_ = library_ != nullptr && find("nvmlInit_v2", init) &&
				   find("nvmlDeviceGetCount_v2", count_cards) &&
				   find("nvmlDeviceGetHandleByIndex_v2", get_card) &&
				   find("nvmlDeviceGetMemoryInfo", get_memory) &&
				   find("nvmlDeviceGetUUID", get_uuid) &&
				   find("nvmlDeviceGetMigMode", get_mig_mode) && init() == success;
	}
	~management()
	{
		int (*shutdown)() = nullptr;

		if (started_ && find("nvmlShutdown", shutdown))
			shutdown();
		if (library_ != nullptr)
			dlclose(library_);
	}
	bool
	started() const
	{
		return started_;
	}

	int (*count_cards)(unsigned *) = nullptr;
	int (*get_card)(unsigned, card *) = nullptr;
	int (*get_memory)(card, memory_state *) = nullptr;
	int (*get_uuid)(card, char *, unsigned) = nullptr;
	int (*get_mig_mode)(card, unsigned *, unsigned *) = nullptr;

  private:
	template <class Function>
	bool
	find(const char *name, Function &function)
	{
		function = reinterpret_cast<Function>(dlsym(library_, name));
		return function != nullptr;
	}

	void *library_;
	bool started_;
};

/* Asking the driver how many there are takes some 20 ms. */
bool
there_is_only_one()
{
	glob_t files = {};
	bool one = glob("/dev/nvidia[0-9]*", 0, nullptr, &files) == 0 && files.gl_pathc == 1;

	globfree(&files);
	return one;
}

}  // namespace

/*
 * Returns the UUID of the card with the most free memory. Returns an empty name if CUDA should
 * choose: there is only one card, the environment or MIG decides which one is seen, or the library
 * does not tell.
 */
std::string
name_of_emptiest()
{
	std::string best;
	unsigned long long most = 0;
	unsigned count = 0;

	if (getenv("CUDA_VISIBLE_DEVICES") != nullptr || there_is_only_one())
		return best;

	management nvml;

	if (!nvml.started() || nvml.count_cards(&count) != success || count < 2)
		return best;
	for (unsigned i = 0; i < count; i++)
	{
		card it;
		memory_state memory = {};
		unsigned mig = 0, pending;
		char uuid[uuid_bytes] = "";

		if (nvml.get_card(i, &it) != success || nvml.get_memory(it, &memory) != success ||
			nvml.get_uuid(it, uuid, sizeof(uuid)) != success)
			continue;
		if (nvml.get_mig_mode(it, &mig, &pending) == success && mig != 0)
			return "";
		if (memory.free > most)
		{
			most = memory.free;
			best = uuid;
		}
	}
	return best;
}

}  // namespace gjd
