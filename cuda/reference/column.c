/*
 * column.c
 *	  Columns of the reference library: pages are kept as images, and each change of a page is
 *	  complete when the call returns.
 */
#include "reference.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void
free_column(gjd_column *column)
{
	column->device->columns_used -= column->n_extents * column->extent_bytes;
	column->device->columns--;
	if (column->has_table)
	{
		column->device->scratch_used -= TABLE_BYTES;
		column->device->kept -= TABLE_BYTES;
	}
	for (uint64_t i = 0; i < column->n_extents; i++)
		free(column->extents[i]);
	free(column->extents);
	free(column->versions);
	free(column->newer);
	free(column);
}

/* Makes room for one more extent in every array; after a failure only capacities have changed. */
static gjd_status
add_extent(gjd_column *column, gjd_error *error)
{
	uint64_t n = column->n_extents;
	uint64_t per = column->pages_per_extent;
	char **extents = realloc(column->extents, (n + 1) * sizeof(*extents));

	if (extents)
		column->extents = extents;

	uint64_t *versions = realloc(column->versions, (n + 1) * per * sizeof(*versions));

	if (versions)
		column->versions = versions;

	char *extent = calloc(per, column->page_bytes);

	if (!extents || !versions || !extent)
	{
		free(extent);
		return fail(error, GJD_NO_HOST_MEMORY, ENOMEM, "out of memory");
	}
	memset(versions + n * per, 0, per * sizeof(*versions));
	column->extents[n] = extent;
	column->n_extents++;
	column->device->columns_used += column->extent_bytes;
	return GJD_OK;
}

static gjd_status
reserve(gjd_column *column, uint64_t pages, gjd_error *error)
{
	gjd_device *device = column->device;
	uint64_t per = column->pages_per_extent;
	uint64_t wanted = pages / per + (pages % per != 0);
	uint64_t free_bytes = device->columns_limit - device->columns_used;
	uint64_t unused = device->budget - device->columns_used - device->scratch_used;
	uint64_t before = column->n_extents;
	uint32_t delay;
	gjd_status status;

	if (wanted <= before)
		return GJD_OK;
	start_batch(device);
	status = play_fault(device, GJD_AT_RESERVE, &delay, error);
	if (status != GJD_OK)
		return status;
	if (unused < free_bytes)
		free_bytes = unused;
	if (wanted - before > free_bytes / column->extent_bytes)
		return fail(error, GJD_NO_MEMORY, 0, "out of device memory for columns");
	while (status == GJD_OK && column->n_extents < wanted)
		status = add_extent(column, error);
	while (status != GJD_OK && column->n_extents > before)
	{
		free(column->extents[--column->n_extents]);
		device->columns_used -= column->extent_bytes;
	}
	return status;
}

gjd_status
column_reserve(gjd_column *column, uint64_t pages, gjd_error *error)
{
	if (column == NULL)
		return fail(error, GJD_INVALID, 0, "no column");
	return reserve(column, pages, error);
}

gjd_status
column_create(gjd_device *device, const gjd_column_params *given, gjd_column **out,
			  gjd_error *error)
{
	gjd_column_params params;
	gjd_shape shape;

	if (device == NULL || out == NULL ||
		!layout_take_params(&params, sizeof(params), given, LAYOUT_COLUMN_PARAMS) ||
		!layout_take_shape(&shape, &params))
		return fail(error, GJD_INVALID, 0, "invalid column parameters");

	gjd_column *column = calloc(1, sizeof(*column));
	newer_ring *newer = calloc(1, sizeof(*newer));

	if (column == NULL || newer == NULL)
	{
		free(column);
		free(newer);
		return fail(error, GJD_NO_HOST_MEMORY, ENOMEM, "out of memory");
	}
	column->newer = newer;
	column->device = device;
	column->shape = shape;
	column->pages_per_extent = gjd_shape_extent_pages(&shape);
	column->extent_bytes = gjd_shape_extent_bytes(&shape);
	column->page_bytes = gjd_shape_image_bytes(&shape);
	device->columns++;

	gjd_status status = charge(device, TABLE_BYTES, 0, error);

	if (status == GJD_OK)
	{
		column->has_table = true;
		device->kept += TABLE_BYTES;
		status = reserve(column, params.reserve_pages, error);
	}
	if (status != GJD_OK)
	{
		free_column(column);
		return status;
	}
	*out = column;
	return GJD_OK;
}

const char *
page_at(const gjd_column *column, uint64_t page)
{
	return column->extents[page / column->pages_per_extent] +
		   page % column->pages_per_extent * column->page_bytes;
}

gjd_status
column_write_pages(gjd_column *column, const gjd_page_head *heads, const void *images,
				   uint64_t count, uint64_t *accepted, uint64_t *ticket, gjd_error *error)
{
	uint32_t delay;
	gjd_status status;

	if (column == NULL || accepted == NULL || ticket == NULL ||
		(count > 0 && (heads == NULL || images == NULL)) ||
		(uintptr_t) images % GJD_PAGE_ALIGN != 0)
		return fail(error, GJD_INVALID, 0, "invalid pages");
	*accepted = 0;
	status = play_fault(column->device, GJD_AT_WRITE, &delay, error);
	if (status != GJD_OK)
		return status;
	start_batch(column->device);
	*ticket = ++column->ticket;
	column->written = due_in(delay);
	for (uint64_t i = 0; i < count; i++)
	{
		gjd_page_head head = heads[i];

		if (i > 0 && (i + 1) * column->page_bytes > STAGING_BYTES)
			break;
		if (head.page >= (uint64_t) 1 << 32)
			return fail(error, GJD_INVALID, 0, "page number out of range");
		status = reserve(column, head.page + 1, error);
		if (status != GJD_OK)
			return status;
		if (head.page >= column->pages)
			column->pages = head.page + 1;
		if (head.version < column->versions[head.page])
			column->ignored++;
		else
		{
			memcpy((char *) page_at(column, head.page),
				   (const char *) images + i * column->page_bytes, column->page_bytes);
			column->versions[head.page] = head.version;
			newer_note(column->newer, head.page, head.version);
			column->applied++;
		}
		*accepted = i + 1;
	}
	return GJD_OK;
}

gjd_status
column_write_poll(gjd_column *column, uint64_t ticket, gjd_error *error)
{
	if (column == NULL || ticket > column->ticket)
		return fail(error, GJD_INVALID, 0, "invalid ticket");
	if (column->device->lost)
		return fail(error, GJD_DEVICE_LOST, 0, "device was lost");
	return is_due(&column->written) ? GJD_OK : GJD_PENDING;
}

gjd_status
column_info(gjd_column *column, gjd_column_info *info, gjd_error *error)
{
	if (column == NULL || info == NULL)
		return fail(error, GJD_INVALID, 0, "no column");
	*info = (gjd_column_info){column->pages,
							  column->n_extents * column->pages_per_extent,
							  column->n_extents * column->extent_bytes,
							  column->applied,
							  column->ignored,
							  column->users};
	return GJD_OK;
}

gjd_status
column_versions(gjd_column *column, uint64_t first, uint64_t count, uint64_t *versions,
				gjd_error *error)
{
	if (column == NULL || (count > 0 && versions == NULL))
		return fail(error, GJD_INVALID, 0, "no column");
	for (uint64_t i = 0; i < count; i++)
	{
		bool held = first < column->pages && i < column->pages - first;

		versions[i] = held ? column->versions[first + i] : 0;
	}
	return GJD_OK;
}

gjd_status
column_destroy(gjd_column *column, gjd_error *error)
{
	if (column == NULL)
		return fail(error, GJD_INVALID, 0, "no column");
	if (column->ticket > 0 && !is_due(&column->written))
		return GJD_PENDING;
	column->destroyed = true;
	release_column(column);
	return GJD_OK;
}

/* Frees a column that is destroyed and not in use. */
void
release_column(gjd_column *column)
{
	if (column->destroyed && column->users == 0)
		free_column(column);
}
