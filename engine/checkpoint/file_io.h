// Files as checkpoints need them: mapped reads, writes that are on the disk before they count, and
// errors that name the system call and the path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/data/mapped_file.h"
#include "engine/data/output_file.h"

namespace tessera::engine {

// The whole file or nothing, synced.
void WriteWholeFile(const std::string& path, std::string_view text);
// Throws base::ConfigError when there is no such file.
std::string ReadWholeFile(const std::string& path);

bool PathExists(const std::string& path);
// Whether a name that a file gives stays in that file's folder.
bool IsPlainFileName(const std::string& name);
// Throws base::SystemError unless the folder is there.
void RequireFolder(const std::string& path);
// A new one. Throws base::SystemError where it is there already, or the folder above is not.
void MakeFolder(const std::string& path);
// With the folders above it, where missing.
void MakeFolders(const std::string& path);
// Names in the folder, sorted; empty when there is no such folder.
std::vector<std::string> ListFolder(const std::string& path);
// Makes the names in a folder durable.
void SyncFolder(const std::string& path);
void RenamePath(const std::string& from, const std::string& to);
// Succeeds when there is nothing to remove.
void RemoveTree(const std::string& path);
// For clean-up on the way out of a failure, which matters more than one here.
void TryRemoveTree(const std::string& path) noexcept;
inline constexpr std::string_view kTemporaryMark = ".tmp-";
// The mark and letters that no other process uses at the moment.
std::string TemporarySuffix();

}  // namespace tessera::engine
