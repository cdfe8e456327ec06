#include "pipeline/remote/endpoint/test_endpoint.h"
