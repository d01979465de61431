// Asio's own functions, compiled once (ASIO_SEPARATE_COMPILATION) and not in each file that includes its headers.
#include <asio/impl/src.hpp>
