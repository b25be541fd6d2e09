#include "planner/report/svg_text.h"

#include <cmath>

#include "cost_model/base/check.h"
#include "planner/report/html_text.h"
#include "planner/text_format.h"

namespace tessera::planner {

using base::Concat;

std::string SvgNumber(double value) {
  const double rounded = std::round(value * 10) / 10;
  return FormatFixed(rounded, rounded == std::round(rounded) ? 0 : 1);
}

std::string SvgOpening(double width, double height, const std::string& description) {
  return Concat("<svg class=\"chart\" viewBox=\"0 0 ", SvgNumber(width), " ", SvgNumber(height),
                "\" role=\"img\" aria-label=\"", EscapeHtml(description), "\">\n");
}

std::string SvgLine(SvgPoint from, SvgPoint to, const std::string& css_class) {
  return Concat("<line class=\"", css_class, "\" x1=\"", SvgNumber(from.x), "\" y1=\"",
                SvgNumber(from.y), "\" x2=\"", SvgNumber(to.x), "\" y2=\"", SvgNumber(to.y),
                "\"/>\n");
}

std::string SvgText(SvgPoint at, const std::string& text, const std::string& css_class,
                    const std::string& anchor) {
  return Concat("<text class=\"", css_class, "\" x=\"", SvgNumber(at.x), "\" y=\"", SvgNumber(at.y),
                "\" text-anchor=\"", anchor, "\">", EscapeHtml(text), "</text>\n");
}

std::string SvgFilterKeys(const Series& series) {
  std::string keys;
  if (series.group >= 0) keys += Concat(" data-group=\"", series.group, "\"");
  if (series.style >= 0) keys += Concat(" data-style=\"", series.style, "\"");
  return keys;
}

}  // namespace tessera::planner
