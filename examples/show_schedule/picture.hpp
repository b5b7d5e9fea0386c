// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <kerkis/schedule/action.hpp>

/// One action as drawn: times from the start of the panel.
struct Box {
  double start = 0;
  double end = 0;
  kerkis::schedule::Action action;
};

/// Who computes what when: a row of boxes for each rank.
struct Panel {
  std::string title;
  std::string unit;
  std::vector<std::vector<Box>> rows;

  double end() const {
    double last = 0;
    for (const auto& row : rows) {
      for (const Box& box : row) last = std::max(last, box.end);
    }
    return last;
  }
};

/// Panels one below the other as an SVG. A colour says what is computed (of Okabe and Ito's palette, which colour-blind
/// readers tell apart), its lightness the chunk, a number the microbatch where there is room. The background follows
/// the reader's preference for light or dark. All boxes of one colour in a row are a single path, so that a picture of
/// tens of thousands stays below a megabyte or so.
class Picture {
 public:
  Picture(std::string title, std::vector<Panel> panels, int chunks)
      : title_(std::move(title)), panels_(std::move(panels)), chunks_(chunks) {
    int microbatches = 1;
    double shortest = 1e300;
    for (const Panel& panel : panels_) {
      const double end = panel.end();
      ranks_ = std::max(ranks_, panel.rows.size());
      for (const auto& row : panel.rows) {
        for (const Box& box : row) {
          kinds_.insert(box.action.kind);
          microbatches = std::max(microbatches, box.action.microbatch + 1);
          if (box.end > box.start) shortest = std::min(shortest, (box.end - box.start) / end);
        }
      }
    }
    row_ = ranks_ <= 16 ? 24 : ranks_ <= 64 ? 14 : std::max(3.0, 900.0 / static_cast<double>(ranks_));
    font_ = std::min(11.0, 0.7 * row_);
    const auto digits = static_cast<double>(std::to_string(microbatches - 1).size());
    width_ = std::clamp((0.62 * font_ * digits + 5) / shortest, 640.0, 1800.0);
  }

  std::string svg() {
    double y = 78;
    std::string body;
    for (const Panel& panel : panels_) y = draw(panel, y, body);
    const double full = left + width_ + right, height = y - 16;
    out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(full) + ' ' + number(height) +
           "\" width=\"" + number(full) + "\" height=\"" + number(height) +
           "\" font-family=\"system-ui,sans-serif\" font-size=\"12\">\n";
    out_ += "<title>" + title_ + "</title>\n<style>\n" + style() + "</style>\n";
    out_ += "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";
    out_ += "<text class=\"ink\" x=\"12\" y=\"26\" font-size=\"16\" font-weight=\"600\">" + title_ + "</text>\n";
    legend();
    out_ += body + "</svg>\n";
    return std::move(out_);
  }

 private:
  using ActionKind = kerkis::schedule::ActionKind;
  using Colour = std::array<int, 3>;

  static constexpr double left = 64, right = 24;

  static std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", value);
    std::string s = text;
    while (s.back() == '0') s.pop_back();
    if (s.back() == '.') s.pop_back();
    return s == "-0" ? "0" : s;
  }

  static Colour colour(ActionKind kind) {
    const bool input = computes_input_gradient(kind), weight = computes_weight_gradient(kind);
    if (computes_forward(kind)) return {0x56, 0xb4, 0xe9};
    if (input && weight) return {0xe0, 0x6a, 0x1f};
    if (input) return {0xf0, 0xb4, 0x2d};
    if (weight) return {0x1f, 0xa8, 0x80};
    return {0x99, 0x99, 0x99};
  }

  /// Later chunks are lighter.
  std::string shade(ActionKind kind, int chunk) const {
    const double white = chunks_ < 2 ? 0 : 0.62 * chunk / (chunks_ - 1);
    std::string text = "#";
    for (const int part : colour(kind)) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned>(std::lround(part + (255 - part) * white)));
      text += hex;
    }
    return text;
  }

  static std::string name(ActionKind kind, int chunk) {
    return std::string(1, static_cast<char>('a' + static_cast<int>(kind))) + std::to_string(chunk);
  }

  std::string style() const {
    std::string text =
        ".paper{fill:#fff}.ink{fill:#1a1a1a}.grid{stroke:#d4d4d4}.lane{stroke:#f0f0f0}.count{fill:#111}\n"
        "@media (prefers-color-scheme:dark){.paper{fill:#15181d}.ink{fill:#e8e8e8}.grid{stroke:#454a52}"
        ".lane{stroke:#22262d}}\n";
    for (const ActionKind kind : kinds_) {
      for (int chunk = 0; chunk < chunks_; ++chunk)
        text += '.' + name(kind, chunk) + "{stroke:" + shade(kind, chunk) + "}";
    }
    return text + '\n';
  }

  void legend() {
    double x = 12;
    const int shown = std::min(chunks_, 8);
    for (const ActionKind kind : kinds_) {
      for (int k = 0; k < shown; ++k) {
        const int chunk = shown < 2 ? 0 : k * (chunks_ - 1) / (shown - 1);
        out_ += "<path class=\"" + name(kind, chunk) + "\" stroke-width=\"12\" d=\"M" + number(x) + " 46h14\"/>\n";
        x += 14;
      }
      std::string words(to_string(kind));
      std::replace(words.begin(), words.end(), '_', ' ');
      out_ += "<text class=\"ink\" x=\"" + number(x + 6) + "\" y=\"50\">" + words + "</text>\n";
      x += 24 + 6.6 * static_cast<double>(words.size());
    }
    if (chunks_ > 1) {
      out_ += "<text class=\"ink\" x=\"" + number(x) + "\" y=\"50\">the lighter, the later the chunk</text>\n";
    }
  }

  double draw(const Panel& panel, double y, std::string& body) const {
    const double end = panel.end(), scale = end > 0 ? width_ / end : 0;
    const double height = row_ * static_cast<double>(panel.rows.size());
    body += "<text class=\"ink\" x=\"12\" y=\"" + number(y) + "\">" + panel.title + "</text>\n";
    y += 10;
    axis(panel, y, height, end, scale, body);
    const double thick = row_ >= 8 ? row_ - 2 : row_ * 0.85;
    body += "<g fill=\"none\" stroke-width=\"" + number(thick) + "\" font-size=\"" + number(font_) +
            "\" text-anchor=\"middle\">\n";
    // Where rows are low, every so many have a name.
    const auto every = static_cast<std::size_t>(std::ceil(12 / row_));
    for (std::size_t rank = 0; rank < panel.rows.size(); ++rank) {
      const double middle = y + row_ * (static_cast<double>(rank) + 0.5);
      body += "<g transform=\"translate(" + number(left) + ' ' + number(middle) + ")\">";
      if (rank % every == 0) {
        body += "<text class=\"ink\" x=\"-6\" y=\"4\" font-size=\"11\" text-anchor=\"end\">rank " +
                std::to_string(rank) + "</text>";
      }
      body += "<path class=\"lane\" d=\"M0 0h" + number(width_) + "\"/>";
      boxes(panel.rows[rank], scale, body);
      body += "</g>\n";
    }
    body += "</g>\n";
    return y + height + 48;
  }

  void boxes(const std::vector<Box>& row, double scale, std::string& body) const {
    // In hundredths of a pixel, so that the steps of a path add up to the last.
    const auto hundredths = [&](double time) { return std::lround(100 * time * scale); };
    for (const ActionKind kind : kinds_) {
      for (int chunk = 0; chunk < chunks_; ++chunk) {
        std::string path;
        long at = 0;
        for (const Box& box : row) {
          if (box.action.kind != kind || box.action.chunk != chunk) continue;
          const long start = hundredths(box.start);
          const long size = std::max(1L, hundredths(box.end) - start);
          const long drawn = size - std::min(80L, size / 6);
          path += (path.empty() ? "M" : "m") + short_number(start - at) + " 0h" + short_number(drawn);
          at = start + drawn;
        }
        if (!path.empty()) body += "<path class=\"" + name(kind, chunk) + "\" d=\"" + path + "\"/>";
      }
    }
    if (font_ < 7) return;
    std::string counts;
    for (const Box& box : row) {
      const std::string count = std::to_string(box.action.microbatch);
      if ((box.end - box.start) * scale < 0.62 * font_ * static_cast<double>(count.size()) + 2) continue;
      counts += "<text x=\"" + number(0.5 * (box.start + box.end) * scale) + "\">" + count + "</text>";
    }
    if (counts.empty()) return;
    body += "<g class=\"count\" transform=\"translate(0 " + number(0.36 * font_) + ")\">" + counts + "</g>";
  }

  static std::string short_number(long hundredths) { return number(static_cast<double>(hundredths) / 100); }

  void axis(const Panel& panel, double y, double height, double end, double scale, std::string& body) const {
    const double bottom = y + height;
    double step = std::pow(10, std::floor(std::log10(std::max(end, 1e-300) / 4)));
    for (const double factor : {2.0, 2.5, 2.0}) {
      if (end / step > 10) step *= factor;
    }
    for (int k = 0; end > 0 && k * step <= end * (1 + 1e-9); ++k) {
      const std::string x = number(left + k * step * scale);
      char text[32];
      std::snprintf(text, sizeof text, "%.6g", k * step);
      body += "<path class=\"grid\" d=\"M" + x + ' ' + number(y) + 'V' + number(bottom + 4) +
              "\"/><text class=\"ink\" x=\"" + x + "\" y=\"" + number(bottom + 17) +
              "\" font-size=\"11\" text-anchor=\"middle\">" + text + "</text>\n";
    }
    body += "<text class=\"ink\" x=\"" + number(left - 6) + "\" y=\"" + number(bottom + 17) +
            "\" font-size=\"11\" text-anchor=\"end\">" + panel.unit + "</text>\n";
  }

  std::string title_;
  std::vector<Panel> panels_;
  int chunks_;
  std::set<ActionKind> kinds_;
  std::size_t ranks_ = 1;
  double row_ = 0, font_ = 0, width_ = 0;
  std::string out_;
};
