#pragma once

#include <cstdint>

namespace strata {

// Heap blocks of at least 4 KiB that any thread of this process takes while watched, by whatever
// function but the pools of UCX. Part of a binary's link: it stands between the program and malloc.
void WatchHeap(bool on);
int64_t LargeHeapBlocks();

// Where the first of them were taken, to stderr.
void PrintLargeHeapBlocks();

// Anonymous files (unit memory, shards) that this process has.
int MemoryFiles();

}  // namespace strata
