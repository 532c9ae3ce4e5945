#include "scheduler/prefetch_scheduler.h"
