/*
 * report.cuh
 *	  The report to the host, by the last kernel of a match.
 */
#ifndef GPUJOIN_CUDA_KERNELS_REPORT_CUH
#define GPUJOIN_CUDA_KERNELS_REPORT_CUH

#include "kernels.cuh"

namespace gjd
{

/* One thread writes the report; the last word written signals that the rest is complete. */
__device__ inline void
write_report(const report_job &job)
{
	job.report->count = *job.total;
	job.report->unordered = *job.unordered;
	job.report->matched = *job.matched;
	if (job.reduced != nullptr)
	{
		job.report->reduced = job.reduced->rows;
		job.report->nulls = job.reduced->nulls;
		job.report->elements = job.reduced->elements;
		job.report->groups = job.reduced->groups;
	}
	__threadfence_system();
	job.report->written = job.number;
}

}  // namespace gjd

#endif
