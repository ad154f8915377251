#include "server/api/generate/prepare.h"

#include "server/api/generate/format.h"
#include "server/api/generate/request.h"
#include "server/api/prepare_parts.h"

namespace anabranch::server {

ApiResult<PreparedRequest> prepare_generate(std::string_view body, const PrepareContext& context) {
  TRY(auto completion, parse_generate_request(body, context.defaults));
  const GenerationOptions& options = completion.options;
  auto writer = std::make_shared<GenerateWriter>(options.stream, options.stop_tokens);
  return ready(context.preparer.completion(std::move(completion), context.cancelled), std::move(writer));
}

}  // namespace anabranch::server
