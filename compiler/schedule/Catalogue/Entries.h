// The entries of the catalogue, one a file of this folder.
#pragma once

#include "compiler/schedule/Catalogue.h"

namespace pipec::schedule {

Entry gPipe();
Entry oneFOneB();

} // namespace pipec::schedule
