// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "machine.hpp"

/// What the first rank shows and writes; the others are silent.
class Progress {
 public:
  Progress(bool shown, std::int64_t steps, double operations_per_token, double machine_speed)
      : shown_(shown), steps_(steps), operations_(operations_per_token), speed_(machine_speed) {
    // Under mpiexec the output is a pipe; who started it may know better.
    const char* wish = std::getenv("KERKIS_PROGRESS");
    live_ = isatty(STDOUT_FILENO) != 0 || (wish != nullptr && std::strcmp(wish, "live") == 0);
  }

  void step(const kerkis::StepReport& report, double seconds) {
    const std::int64_t step = report.step;
    tokens_ += report.weight;
    busy_ += seconds;
    if (!shown_) return;
    const double since = seconds_since(last_);
    if (step < steps_ && step > 1 && since < (live_ ? 0.2 : 3.0)) return;
    last_ = Clock::now();
    const double rate = tokens_ / busy_;
    std::string line = kerkis::message("step ", step, "/", steps_);
    char text[160];
    std::snprintf(text, sizeof text, "  loss %.3f", report.loss);
    line += text;
    if (!std::isnan(validation_)) {
      std::snprintf(text, sizeof text, "  validation %.3f", validation_);
      line += text;
    }
    std::snprintf(text, sizeof text, "  %.0f tokens/s  %.0f %% of matrix-product speed  %.0f s left", rate,
                  100 * rate * operations_ / speed_,
                  seconds_since(start_) / static_cast<double>(step) * static_cast<double>(steps_ - step));
    line += text;
    std::printf("%s%s%s", live_ ? "\r\033[K" : "", line.c_str(), live_ && step < steps_ ? "" : "\n");
    std::fflush(stdout);
  }
  void validation(double loss) { validation_ = loss; }

 private:
  bool shown_, live_ = false;
  std::int64_t steps_;
  double operations_, speed_, tokens_ = 0, busy_ = 0, validation_ = std::nan("");
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

/// One JSON object per step. Throws if the file can't be written, so that no run goes on without its log.
class Log {
 public:
  /// Throws InputError if the file can't be opened.
  explicit Log(std::string path) : path_(std::move(path)) {
    if (path_.empty()) return;
    file_.open(path_, std::ios::trunc);
    kerkis::require(file_.good(), "the log '", path_, "' can't be written: ", std::strerror(errno));
  }
  void write(const kerkis::StepReport& report, double seconds, double validation_loss) {
    if (path_.empty()) return;
    const std::int64_t step = report.step;
    nlohmann::ordered_json line{{"step", step},
                                {"loss", report.loss},
                                {"grad_norm", report.gradient_norm},
                                {"learning_rate", report.learning_rate},
                                {"tokens", static_cast<std::int64_t>(report.weight)},
                                {"seconds", seconds}};
    if (!std::isnan(validation_loss)) line["validation_loss"] = validation_loss;
    file_ << line.dump() << '\n' << std::flush;
    if (file_.good()) return;
    const std::string what =
        kerkis::message("step ", step, ": the log '", path_, "' can't be written: ", std::strerror(errno));
    if (step == 1) throw kerkis::InputError(what);  // it never could be
    throw kerkis::Error(what);
  }

 private:
  std::string path_;
  std::ofstream file_;
};
