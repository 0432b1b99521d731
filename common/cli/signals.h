#pragma once

namespace tl::cli {

/// SIGINT and SIGTERM set the flag behind tl::interrupted(); SIGPIPE is ignored so that a write
/// fails with EPIPE, which becomes ClosedPipe. Called once by cli::run().
void install_signal_handlers();

} // namespace tl::cli
