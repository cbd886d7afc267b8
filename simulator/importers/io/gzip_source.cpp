#include "simulator/importers/io/gzip_source.h"

#include <zlib.h>

#include <algorithm>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

constexpr int kGzipOnly = 15 + 16;  // inflateInit2: largest window, gzip header

class GzipSource : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> raw, const InputLimits& limits)
      : ByteSource(raw->name()), raw_(std::move(raw)), limits_(limits) {
    FORETRACE_CHECK(inflateInit2(&stream_, kGzipOnly) == Z_OK);
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  int64_t raw_offset() const override { return raw_->raw_offset(); }

 protected:
  absl::StatusOr<size_t> Read(char* buffer, size_t capacity) override {
    stream_.next_out = reinterpret_cast<Bytef*>(buffer);
    stream_.avail_out = static_cast<uInt>(std::min<size_t>(capacity, 1u << 30));
    const uInt room = stream_.avail_out;
    while (stream_.avail_out == room && !done_) {
      if (stream_.avail_in == 0) FORETRACE_RETURN_IF_ERROR(Refill());
      if (done_) break;
      FORETRACE_RETURN_IF_ERROR(Inflate());
    }
    const size_t count = room - stream_.avail_out;
    bytes_out_ += static_cast<int64_t>(count);
    FORETRACE_RETURN_IF_ERROR(CheckLimits());
    return count;
  }

 private:
  absl::Status Refill() {
    FORETRACE_ASSIGN_OR_RETURN(const std::string_view chunk, raw_->Next());
    if (chunk.empty()) {
      if (in_member_) {
        return InvalidInput(
            "{}: damaged or truncated file after {} decompressed bytes: the gzip "
            "data does not end",
            name(), bytes_out_);
      }
      done_ = true;
      return absl::OkStatus();
    }
    // zlib does not write to its input.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(chunk.data()));
    stream_.avail_in = static_cast<uInt>(chunk.size());
    return absl::OkStatus();
  }

  absl::Status Inflate() {
    // Some writers pad the end with zeros.
    while (!in_member_ && any_member_ && stream_.avail_in > 0 && *stream_.next_in == 0) {
      ++stream_.next_in;
      --stream_.avail_in;
    }
    if (stream_.avail_in == 0) return absl::OkStatus();
    in_member_ = true;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      in_member_ = false;
      any_member_ = true;
      FORETRACE_CHECK(inflateReset(&stream_) == Z_OK);
      return absl::OkStatus();
    }
    if (result == Z_OK || result == Z_BUF_ERROR) return absl::OkStatus();
    return InvalidInput("{}: damaged or truncated file after {} decompressed bytes: gzip: {}",
                        name(), bytes_out_, stream_.msg != nullptr ? stream_.msg : "bad data");
  }

  absl::Status CheckLimits() const {
    if (bytes_out_ > limits_.max_bytes) {
      return InvalidInput(
          "{}: decompresses to more than {} bytes; raise the limit if it is a "
          "trace",
          name(), limits_.max_bytes);
    }
    if (bytes_out_ > limits_.ratio_grace && bytes_out_ / limits_.max_ratio > raw_->offset()) {
      return InvalidInput("{}: {} bytes decompress to over {}: a decompression bomb, not a trace",
                          name(), raw_->offset(), bytes_out_);
    }
    return absl::OkStatus();
  }

  std::unique_ptr<ByteSource> raw_;
  InputLimits limits_;
  z_stream stream_{};
  bool in_member_ = false;
  bool any_member_ = false;
  bool done_ = false;
  int64_t bytes_out_ = 0;
};

}  // namespace

bool LooksLikeGzip(std::string_view prefix) { return prefix.starts_with("\x1f\x8b"); }

std::unique_ptr<ByteSource> MakeGzipSource(std::unique_ptr<ByteSource> raw,
                                           const InputLimits& limits) {
  return std::make_unique<GzipSource>(std::move(raw), limits);
}

}  // namespace foretrace
