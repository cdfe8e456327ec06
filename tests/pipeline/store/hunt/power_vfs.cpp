#include "pipeline/store/hunt/power_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace dovetail::pipeline {
namespace {

struct Write {
  std::int64_t offset = 0;
  std::string bytes;
  bool truncate = false;
};

void apply(std::string& file, const Write& write, std::size_t bytes) {
  const auto at = static_cast<std::size_t>(write.offset);
  if (write.truncate) {
    file.resize(at);
    return;
  }
  file.resize(std::max(file.size(), at + bytes));
  std::copy_n(write.bytes.begin(), bytes, file.begin() + write.offset);
}

struct Image {
  std::string synced;
  std::vector<Write> since;
};

std::mutex mutex;
std::map<std::string, Image> images;

// A file of the real system with a name; SQLite allocates it together with the real one behind it.
struct File {
  sqlite3_file base;
  Image* image;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

File* file_of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
sqlite3_file* real_of(sqlite3_file* file) { return file_of(file)->real(); }

int write_file(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 offset) {
  const std::lock_guard lock(mutex);
  if (Image* image = file_of(file)->image) {
    image->since.push_back({offset, {static_cast<const char*>(bytes), std::size_t(size)}, false});
  }
  return real_of(file)->pMethods->xWrite(real_of(file), bytes, size, offset);
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  const std::lock_guard lock(mutex);
  if (Image* image = file_of(file)->image) image->since.push_back({size, {}, true});
  return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

int sync_file(sqlite3_file* file, int flags) {
  const std::lock_guard lock(mutex);
  if (Image* image = file_of(file)->image) {
    for (const Write& write : image->since) apply(image->synced, write, write.bytes.size());
    image->since.clear();
  }
  return real_of(file)->pMethods->xSync(real_of(file), flags);
}

const sqlite3_io_methods methods = {
    3,
    [](sqlite3_file* f) { return real_of(f)->pMethods->xClose(real_of(f)); },
    [](sqlite3_file* f, void* to, int size, sqlite3_int64 at) {
      return real_of(f)->pMethods->xRead(real_of(f), to, size, at);
    },
    write_file,
    truncate_file,
    sync_file,
    [](sqlite3_file* f, sqlite3_int64* size) {
      return real_of(f)->pMethods->xFileSize(real_of(f), size);
    },
    [](sqlite3_file* f, int level) { return real_of(f)->pMethods->xLock(real_of(f), level); },
    [](sqlite3_file* f, int level) { return real_of(f)->pMethods->xUnlock(real_of(f), level); },
    [](sqlite3_file* f, int* held) {
      return real_of(f)->pMethods->xCheckReservedLock(real_of(f), held);
    },
    [](sqlite3_file* f, int what, void* value) {
      return real_of(f)->pMethods->xFileControl(real_of(f), what, value);
    },
    [](sqlite3_file* f) { return real_of(f)->pMethods->xSectorSize(real_of(f)); },
    [](sqlite3_file* f) { return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f)); },
    [](sqlite3_file* f, int page, int size, int extend, void volatile** to) {
      return real_of(f)->pMethods->xShmMap(real_of(f), page, size, extend, to);
    },
    [](sqlite3_file* f, int offset, int count, int flags) {
      return real_of(f)->pMethods->xShmLock(real_of(f), offset, count, flags);
    },
    [](sqlite3_file* f) { real_of(f)->pMethods->xShmBarrier(real_of(f)); },
    [](sqlite3_file* f, int remove) { return real_of(f)->pMethods->xShmUnmap(real_of(f), remove); },
    [](sqlite3_file* f, sqlite3_int64 at, int size, void** to) {
      return real_of(f)->pMethods->xFetch(real_of(f), at, size, to);
    },
    [](sqlite3_file* f, sqlite3_int64 at, void* from) {
      return real_of(f)->pMethods->xUnfetch(real_of(f), at, from);
    },
};

sqlite3_vfs* real_system = nullptr;
sqlite3_vfs watched;

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
  File* made = file_of(file);
  made->base.pMethods = nullptr;
  made->image = nullptr;
  const int code = real_system->xOpen(real_system, name, made->real(), flags, out);
  if (made->real()->pMethods == nullptr) return code;
  made->base.pMethods = &methods;
  if (name != nullptr && (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)) != 0) {
    const std::lock_guard lock(mutex);
    made->image = &images[name];
  }
  return code;
}

}  // namespace

void watch_power() {
  real_system = sqlite3_vfs_find(nullptr);
  watched = *real_system;
  watched.zName = "power";
  watched.szOsFile = static_cast<int>(sizeof(File)) + real_system->szOsFile;
  watched.xOpen = open_file;
  if (sqlite3_vfs_register(&watched, 1) != SQLITE_OK) std::abort();
}

void cut_power(const std::filesystem::path& folder, std::mt19937_64& random) {
  std::map<std::string, Image> left;
  {
    const std::lock_guard lock(mutex);
    left = images;
  }
  for (auto& [name, image] : left) {
    for (const Write& write : image.since) {
      switch (random() % 3) {
        case 0:
          apply(image.synced, write, write.bytes.size());
          break;
        case 1:
          if (!write.truncate) apply(image.synced, write, write.bytes.size() / 2);
          break;
        default:
          break;
      }
    }
    std::ofstream out(folder / std::filesystem::path(name).filename(), std::ios::binary);
    out << image.synced;
    if (!out.flush()) std::abort();
  }
}

}  // namespace dovetail::pipeline
