/*
 * replay.c
 *	  Replacement for libFuzzer, if it is missing: runs the target on each of the inputs that
 *	  it is called with, files or folders of them.  Options of libFuzzer are ignored.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "fuzz.h"

static int ninputs;

static void
replay(const char *path)
{
	static uint8_t data[65536];
	FILE *file = fopen(path, "rb");
	uint8_t *copy;
	size_t n;

	require(file != NULL);
	n = fread(data, 1, sizeof(data), file);
	fclose(file);
	/* in separate memory, whose end the sanitizer watches */
	copy = malloc(n + 1);
	memcpy(copy + 1, data, n);
	LLVMFuzzerTestOneInput(copy + 1, n);
	free(copy);
	ninputs++;
}

static void
replay_folder(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	char file[4096];

	require(folder != NULL);
	while ((entry = readdir(folder)) != NULL)
	{
		snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
		if (entry->d_name[0] != '.')
			replay(file);
	}
	closedir(folder);
}

int
main(int argc, char **argv)
{
	struct stat st;

	for (int i = 1; i < argc; i++)
	{
		if (argv[i][0] == '-')
			continue;
		require(stat(argv[i], &st) == 0);
		if (S_ISDIR(st.st_mode))
			replay_folder(argv[i]);
		else
			replay(argv[i]);
	}
	printf("Replayed %d inputs\n", ninputs);
	return 0;
}
