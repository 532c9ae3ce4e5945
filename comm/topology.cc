#include "comm/topology.h"
