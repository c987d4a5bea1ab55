-- All variants of the vector kernels that this processor has, and sets of TIDs under and
-- over their memory limit, against plain C that is obviously right.
SELECT gpujoin_kernel_selftest() > 100000 AS kernels_agree;
SELECT gpujoin_tidset_selftest() > 100000 AS tid_sets_agree;
