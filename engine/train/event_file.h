// Files of events as TensorBoard reads them: records of TensorFlow's TFRecord format, each a
// protobuf message Event (tensorflow/core/util/event.proto).
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace tessera::engine {

// CRC-32C (Castagnoli), RFC 3720, appendix B.4.
uint32_t Crc32c(std::span<const char> bytes);

// Length (uint64), its masked CRC-32C, the payload, its masked CRC-32C; little endian.
// Source: tensorflow/core/lib/io/record_writer.h, and crc32c.h for the mask.
std::string TfRecord(const std::string& payload);

struct Scalar {
  std::string tag;
  float value = 0;
};

// Messages of type Event, serialized.
std::string FileVersionEvent(double wall_time_s);
std::string ScalarsEvent(double wall_time_s, int64_t step, const std::vector<Scalar>& scalars);

// A new file of a log folder, which TensorBoard reads with the others there.
class EventFile {
 public:
  // Makes the folder where it is missing. Throws base::SystemError.
  explicit EventFile(const std::string& folder);
  // Throws base::SystemError when it cannot be written. Flushed: a reader follows the run.
  void Write(int64_t step, const std::vector<Scalar>& scalars);
  const std::string& path() const { return path_; }

 private:
  void WriteRecord(const std::string& payload);

  std::string path_;
  std::ofstream file_;
};

}  // namespace tessera::engine
