#include "scheduler/ideal_step.h"
