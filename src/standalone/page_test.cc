#include "standalone/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle::standalone {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(StatusPage, ShowsWhatUsersWroteAsText) {
  View view;
  view.node = "box";
  view.origin = Origin::kSimulated;
  view.what = "h100x2";
  CardView card;
  card.name = "gpu-0";
  card.card.model = "NVIDIA H100";
  card.memory_bytes = int64_t{80} << 30;
  card.granted_bytes = int64_t{20} << 30;
  view.cards.push_back(card);
  JobView job;
  job.job.id = 4;
  job.job.request.name = "<script>alert('x')</script>";
  job.job.request.command = {"sh", "-c", "a && \"b\""};
  job.position = 2;
  job.reasons = {{"Capacity", "8Gi <wanted>"}};
  view.jobs.push_back(job);
  const auto page = status_page(view);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&#39;x&#39;)"));
  EXPECT_THAT(page, HasSubstr("a &amp;&amp; &quot;b&quot;"));
  EXPECT_THAT(page, HasSubstr("width:25%"));
  EXPECT_THAT(page, HasSubstr("SIMULATED"));
  EXPECT_THAT(page, HasSubstr("place 2 in the queue<br>Capacity: 8Gi &lt;wanted&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("http://"))) << "no files from elsewhere";
}

}  // namespace
}  // namespace heddle::standalone
