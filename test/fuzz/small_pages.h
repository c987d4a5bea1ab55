/*
 * small_pages.h
 *	  Included before every source of the pages target: directories and lists take few
 *	  elements a page, so that a small index has trees of several levels and chains of lists.
 *	  The layout of pages is unchanged.
 */
#include "postgres.h"

#include "pages/format.h"

#undef GJ_DIRECTORY_FANOUT
#define GJ_DIRECTORY_FANOUT 2
#undef GJ_LIST_BLOCKS
#define GJ_LIST_BLOCKS 1
#undef GJ_TAIL_ROWS
#define GJ_TAIL_ROWS 40
