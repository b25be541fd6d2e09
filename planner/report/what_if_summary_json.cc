#include "planner/report/what_if_summary_json.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "planner/report/html_text.h"

namespace tessera::planner {
namespace {

using base::Concat;

constexpr size_t kMaxNames = 4;

// "a, b and c".
std::string JoinWords(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}

std::vector<std::string> DistinctNames(const WhatIfView& view, const std::string& key) {
  std::vector<std::string> names;
  for (const Json* point : view.points()) {
    const std::string name = TextAt(*point, key);
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
  return names;
}

std::string NamesOrCount(const std::vector<std::string>& names, const std::string& noun) {
  return names.size() > kMaxNames ? Concat(names.size(), " ", noun) : JoinWords(names);
}

std::vector<std::string> ComparedNames(const WhatIfView& view) {
  std::vector<std::string> names;
  for (const char* path : {"comparison/a/name", "comparison/b/name"}) {
    const std::string name = TextAt(view.document(), path);
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

std::string TitleOf(const std::vector<std::string>& models,
                    const std::vector<std::string>& clusters) {
  return Concat("What if: ", NamesOrCount(models, "models"), " on ",
                NamesOrCount(clusters, "clusters"));
}

std::string Paragraph(const std::string& text, const std::string& css_class = "") {
  return Concat("<p", css_class.empty() ? "" : Concat(" class=\"", css_class, "\""), ">",
                EscapeHtml(text), "</p>\n");
}

struct KeyNumber {
  const char* name;
  const char* key;
  Quantity quantity;
};

constexpr KeyNumber kKeyNumbers[] = {
    {"devices", "devices", Quantity::kCount},
    {"length of the run", "run/days", Quantity::kDays},
    {"cost", "run/cost_usd", Quantity::kDollars},
    {"devices' time", "run/device_hours", Quantity::kDeviceHours},
    {"energy", "run/energy_kwh", Quantity::kKilowattHours},
    {"throughput", "tokens_per_s", Quantity::kTokensPerSecond},
    {"MFU", "mfu", Quantity::kShare},
    {"goodput", "run/goodput_share", Quantity::kShare},
    {"step", "step_time_s", Quantity::kSeconds},
    {"memory of a device", "memory/peak_bytes", Quantity::kBytes},
};

std::string KeyNumbers(const WhatIfView& view) {
  const Json* point = view.PointOf(view.answer());
  if (point == nullptr) return "";
  std::string html = Concat("<section class=\"key\" aria-label=\"Key numbers\">\n<h2>",
                            EscapeHtml(view.TitleOf(*point)), "</h2>\n<p class=\"layout\">",
                            EscapeHtml(TextAt(*point, "layout_text")), "</p>\n<dl data-point=\"",
                            IdOf(*point), "\">\n");
  for (const KeyNumber& number : kKeyNumbers) {
    const auto value = NumberAt(*point, number.key);
    if (!value) continue;
    const Scale scale = ScaleFor(number.quantity, *value);
    html += Concat("<div><dt>", number.name, "</dt><dd data-key=\"", number.key, "\" data-value=\"",
                   Find(*point, number.key)->dump(), "\">", FormatScaled(*value, scale), " <small>",
                   scale.unit, "</small></dd></div>\n");
  }
  return html + "</dl>\n</section>\n";
}

std::string UnlockHtml(const Json& answer) {
  std::string html;
  for (const Json* unlock : ListAt(answer, "unlock")) {
    if (!unlock->is_string()) continue;
    html += Concat("<li>", EscapeHtml(unlock->get<std::string>()), "</li>\n");
  }
  if (html.empty()) return "";
  return Concat("<div class=\"unlock\"><h2>What would make it possible</h2>\n<ul>\n", html,
                "</ul></div>\n");
}

// Each question with its answer, or the first sentence where nothing was asked; then all sentences
// that are not said yet.
std::string AnswerHtml(const WhatIfView& view, const std::vector<std::string>& sentences) {
  std::vector<const Json*> answers = ListAt(view.document(), "answers");
  if (answers.empty()) {
    if (const Json* answer = Find(view.document(), "answer")) answers.push_back(answer);
  }
  std::string html;
  std::vector<std::string> said;
  for (const Json* answer : answers) {
    html += Paragraph(TextAt(*answer, "question"), "question");
    html += Paragraph(TextAt(*answer, "text"), "answer") + UnlockHtml(*answer);
    said.push_back(TextAt(*answer, "text"));
  }
  if (answers.empty() && !sentences.empty()) {
    html += Paragraph(sentences.front(), "answer");
    said.push_back(sentences.front());
  }
  for (const std::string& sentence : sentences) {
    // A sentence may repeat a question with its answer.
    const bool is_said = std::any_of(said.begin(), said.end(), [&](const std::string& text) {
      return !text.empty() && sentence.find(text) != std::string::npos;
    });
    if (!is_said) html += Paragraph(sentence);
  }
  return html;
}

std::string CheckBoxes(const std::string& legend, const std::string& kind,
                       const std::vector<std::string>& names) {
  if (names.size() < 2) return "";
  std::string html = Concat("<fieldset><legend>", legend, "</legend>\n");
  for (size_t i = 0; i < names.size(); ++i) {
    html += Concat("<label><input type=\"checkbox\" checked data-filter=\"", kind, "\" value=\"", i,
                   "\"> ", EscapeHtml(names[i]), "</label>\n");
  }
  return html + "</fieldset>\n";
}

}  // namespace

std::string WhatIfTitle(const WhatIfView& view) {
  if (view.points().empty()) return "What if: " + JoinWords(ComparedNames(view));
  return TitleOf(DistinctNames(view, "model"), DistinctNames(view, "cluster"));
}

std::string WhatIfHeading(const WhatIfView& view) {
  if (view.points().empty()) return EscapeHtml(WhatIfTitle(view));
  const auto in_spans = [](std::vector<std::string> names) {
    for (std::string& name : names) name = Concat("<span>", EscapeHtml(name), "</span>");
    return names;
  };
  return TitleOf(in_spans(DistinctNames(view, "model")), in_spans(DistinctNames(view, "cluster")));
}

std::string WhatIfSummary(const WhatIfView& view) {
  std::vector<std::string> sentences;
  for (const Json* sentence : ListAt(view.document(), "summary")) {
    if (sentence->is_string()) sentences.push_back(sentence->get<std::string>());
  }
  return AnswerHtml(view, sentences) + KeyNumbers(view);
}

std::string WhatIfFilters(const WhatIfView& view) {
  const std::string boxes = CheckBoxes("Clusters", "group", view.keys().groups) +
                            CheckBoxes("Batch sizes", "style", view.keys().styles);
  if (boxes.empty()) return "";
  return Concat("<form class=\"filters\" hidden aria-label=\"What the charts and the table of all ",
                "points show\">\n", boxes, "</form>\n");
}

}  // namespace tessera::planner
