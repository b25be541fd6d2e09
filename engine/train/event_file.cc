#include "engine/train/event_file.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

constexpr uint32_t kCastagnoli = 0x82F63B78;  // bits reflected
constexpr uint32_t kMaskDelta = 0xA282EAD8;

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCastagnoli : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

// Little endian, as the machines are that we run on.
template <typename T>
void AppendRaw(T value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

uint32_t MaskedCrc32c(std::span<const char> bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + kMaskDelta;
}

// Protobuf's wire format (https://protobuf.dev/programming-guides/encoding).
enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void AppendVarint(uint64_t value, std::string& bytes) {
  constexpr uint64_t kMore = 0x80;
  for (; value >= kMore; value >>= 7) bytes += static_cast<char>(value | kMore);
  bytes += static_cast<char>(value);
}

void AppendTag(int field, WireType type, std::string& bytes) {
  AppendVarint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type), bytes);
}

void AppendBytes(int field, const std::string& value, std::string& bytes) {
  AppendTag(field, WireType::kBytes, bytes);
  AppendVarint(value.size(), bytes);
  bytes += value;
}

std::string EventBegin(double wall_time_s) {
  std::string event;
  AppendTag(1, WireType::kFixed64, event);
  AppendRaw(wall_time_s, event);
  return event;
}

double WallTimeS() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// As TensorFlow names them; those of one second and process differ by the last number.
std::string NewPath(const std::string& folder) {
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0) std::strcpy(host.data(), "host");
  const std::string path =
      base::Concat(folder, "/events.out.tfevents.", static_cast<int64_t>(WallTimeS()), ".",
                   host.data(), ".", getpid(), ".");
  int number = 0;
  while (std::filesystem::exists(path + std::to_string(number))) ++number;
  return path + std::to_string(number);
}

}  // namespace

uint32_t Crc32c(std::span<const char> bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFF];
  }
  return ~crc;
}

std::string TfRecord(const std::string& payload) {
  std::string record;
  AppendRaw(uint64_t{payload.size()}, record);
  AppendRaw(MaskedCrc32c(record), record);
  record += payload;
  AppendRaw(MaskedCrc32c(payload), record);
  return record;
}

std::string FileVersionEvent(double wall_time_s) {
  std::string event = EventBegin(wall_time_s);
  AppendBytes(3, "brain.Event:2", event);
  return event;
}

std::string ScalarsEvent(double wall_time_s, int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    AppendBytes(1, scalar.tag, value);
    AppendTag(2, WireType::kFixed32, value);
    AppendRaw(scalar.value, value);
    AppendBytes(1, value, summary);
  }
  std::string event = EventBegin(wall_time_s);
  AppendTag(2, WireType::kVarint, event);
  AppendVarint(static_cast<uint64_t>(step), event);
  AppendBytes(5, summary, event);
  return event;
}

EventFile::EventFile(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw base::SystemError(base::Concat("cannot make the folder ", folder, ": ", error.message()));
  }
  path_ = NewPath(folder);
  file_.open(path_, std::ios::binary);
  if (!file_) {
    throw base::SystemError(base::Concat("cannot open ", path_, ": ", std::strerror(errno)));
  }
  WriteRecord(FileVersionEvent(WallTimeS()));
}

void EventFile::Write(int64_t step, const std::vector<Scalar>& scalars) {
  WriteRecord(ScalarsEvent(WallTimeS(), step, scalars));
}

void EventFile::WriteRecord(const std::string& payload) {
  const std::string record = TfRecord(payload);
  file_.write(record.data(), static_cast<std::streamsize>(record.size()));
  file_.flush();
  if (!file_) {
    throw base::SystemError(
        base::Concat("cannot write an event to ", path_, ": ", std::strerror(errno)));
  }
}

}  // namespace tessera::engine
