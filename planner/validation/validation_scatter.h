// Predicted against measured step times as a picture.
#pragma once

#include <string>

#include "planner/validation/validation.h"

namespace tessera::planner {

// An SVG element: both axes logarithmic, a dot a row coloured by source with its id and error as a
// hover title, the diagonal and the band of 10 % around it. Colours come from the page's CSS
// variables --ink, --faint, --band. "" when no row has a time error.
std::string StepTimeScatter(const Validation& validation);

// The colour of a source's dots, as CSS.
std::string SourceColor(const Validation& validation, const std::string& source);

}  // namespace tessera::planner
