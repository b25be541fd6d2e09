// What the public methods of the backend interface share: checks of arguments, and reports to the
// observer.
#pragma once

#include <initializer_list>

#include "cost_model/base/check.h"
#include "cost_model/base/op.h"
#include "kernels/array.h"

namespace tessera::kernels {

// Tells the observer of one operation, from construction to the end of the scope.
class ObservedOp {
 public:
  ObservedOp(base::OpObserver* observer, const base::OpRecord& record)
      : observer_(observer), record_(record) {
    if (observer_ != nullptr) observer_->OnOpBegin(record_);
  }
  ~ObservedOp() {
    if (observer_ != nullptr) observer_->OnOpEnd(record_);
  }
  ObservedOp(const ObservedOp&) = delete;
  ObservedOp& operator=(const ObservedOp&) = delete;

 private:
  base::OpObserver* const observer_;
  const base::OpRecord record_;
};

inline void CheckPresent(base::OpKind kind, std::initializer_list<ConstArray> arrays) {
  int index = 0;
  for (const ConstArray& array : arrays) {
    TESSERA_CHECK(array, base::ToString(kind), ": array ", index, " is absent");
    ++index;
  }
}

inline void CheckPositive(const base::OpRecord& record, std::initializer_list<int64_t> sizes) {
  for (const int64_t size : sizes) {
    TESSERA_CHECK(size > 0, "size ", size, " in ", base::ToString(record));
  }
}

inline void CheckProbability(float probability) {
  TESSERA_CHECK(probability >= 0 && probability < 1, "dropout probability ", probability);
}

inline int64_t Flag(bool value) { return value ? 1 : 0; }

// Rows may be none where it is the router that decides how many come.
inline void CheckRowsAndWidth(const base::OpRecord& record) {
  TESSERA_CHECK(record.dims[0] >= 0 && record.dims[1] > 0, "rows and width of ",
                base::ToString(record));
}

}  // namespace tessera::kernels
