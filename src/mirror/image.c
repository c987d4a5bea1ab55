/*-------------------------------------------------------------------------
 *
 * image.c
 *	  Images of data pages, as a device gets them: cuda/border/gpujoin_shapes.h.
 *
 * An image has arrays of full width, and all images of a mirror have the same number of slots.
 * Most of the time of a load is spent here.  So narrow pages are widened where the device reads
 * their images, and not first made plain pages.
 *
 * Copyright (c) 2026, the gpujoin developers
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cuda/border/gpujoin_device.h"
#include "mirror.h"
#include "table.h"

/*
 * Describe the shape of an index's mirror, which has all of its INCLUDE columns, and pages of
 * the given number of slots
 */
void
GjMirrorShape(const GjIndexInfo *info, int slots, gjd_shape *shape)
{
	StaticAssertStmt(GJ_MAX_INCLUDED <= GJD_MAX_CARRIED, "a device carries all INCLUDE columns");
	memset(shape, 0, sizeof(gjd_shape));
	shape->key_bytes = info->key_width;
	shape->slots = slots;
	shape->n_carried = info->nincluded;
	for (int i = 0; i < info->nincluded; i++)
	{
		shape->carried_bytes[i] = info->included[i].width;
		shape->nullable |= (uint32) 1 << i;
	}
}

/*
 * Write the image of a data page whose description was checked, with at most the shape's slots; or
 * an empty one, if the page is NULL.  Of slots without an entry only the bits that say so are ever
 * read: keys, TIDs, values and NULL bits are those of an earlier image in the same place.
 */
void
GjImageMake(Page page, const GjIndexInfo *info, const gjd_shape *shape, char *image)
{
	int			nslots = shape->slots;
	uint32	   *blocks = (uint32 *) (image + gjd_image_blocks_at(nslots, info->key_width));
	uint16	   *offsets = (uint16 *) (image + gjd_image_offsets_at(nslots, info->key_width));
	char	   *valid = image + gjd_image_valid_at(nslots, info->key_width);
	bool		narrow;
	int			here;
	Size		bitmap;

	memset(valid, 0, nslots / GJ_SLOTS_PER_WORD * sizeof(uint32));
	if (page == NULL)
		return;
	narrow = GjDataIsNarrow(page);
	here = GjDataSlots(page, info);
	Assert(here <= nslots);
	bitmap = here / GJ_SLOTS_PER_WORD * sizeof(uint32);
	memcpy(valid, GjDataUsed(page, info), bitmap);
	if (narrow)
	{
		GjNarrowCopy(page, GJ_KEY_COLUMN, info->key_width, 0, here, image);
		GjNarrowSplitTids(page, blocks, offsets);
	}
	else
	{
		const ItemPointerData *tids = GjDataTids(page, info);

		memcpy(image, GjDataKeys(page, info), (Size) here * info->key_width);
		for (int i = 0; i < here; i++)
		{
			blocks[i] = BlockIdGetBlockNumber(&tids[i].ip_blkid);
			offsets[i] = tids[i].ip_posid;
		}
	}
	for (int i = 0; i < info->nincluded; i++)
	{
		const GjIncludedColumn *column = &info->included[i];
		char	   *values = image + gjd_image_carried_at(shape, i);
		char	   *nulls = image + gjd_image_nulls_at(shape, i);
		const uint32 *found = GjDataFindNulls(page, info, i);

		if (narrow)
			GjNarrowCopy(page, GJ_FIRST_INCLUDED + i, column->width, 0, here, values);
		else
			memcpy(values, GjDataValues(page, column), (Size) here * column->width);
		if (found != NULL)
			memcpy(nulls, found, bitmap);
		else
			memset(nulls, 0, bitmap);
	}
}
