#include "kube/wire.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace heddle::kube {
namespace {

TEST(LineSplitter, ALineThatIsTooLongIsAnError) {
  LineSplitter splitter(8);
  std::vector<std::string> lines;
  const auto take = [&](std::string& line) {
    lines.push_back(line);
    return LineSplitter::Next::kGoOn;
  };
  ASSERT_TRUE(splitter.feed("12345678\n1234", take));
  ASSERT_TRUE(splitter.feed("5678\r", take).error().code == Code::kExhausted);
  EXPECT_EQ(lines, (std::vector<std::string>{"12345678"}));
}

TEST(LineSplitter, StopsWhenToldTo) {
  LineSplitter splitter(8);
  int lines = 0;
  const auto stop = [&](std::string&) {
    ++lines;
    return LineSplitter::Next::kStop;
  };
  ASSERT_TRUE(splitter.feed("a\nb\nc\n", stop));
  EXPECT_EQ(lines, 1);
}

TEST(ListPage, FieldsInAnyOrderAndEmptyLists) {
  const std::string cases[] = {
      R"({"metadata":{"resourceVersion":"5","continue":"t"},"items":[{"a":"]}"},{"b":[{}]}]})",
      R"({"items":[{"a":"]}"},{"b":[{}]}],"metadata":{"continue":"t","resourceVersion":"5","remainingItemCount":3}})",
  };
  for (std::string body : cases) {
    SCOPED_TRACE(body);
    const auto page = parse_list_page(body);
    ASSERT_TRUE(page) << page.error().text();
    EXPECT_EQ(page->resource_version, "5");
    EXPECT_EQ(page->continue_token, "t");
    EXPECT_EQ(page->items, (std::vector<std::string_view>{R"({"a":"]}"})", R"({"b":[{}]})"}));
  }
  for (std::string body :
       {R"({"metadata":{"resourceVersion":"5"},"items":null})", R"({"metadata":{"resourceVersion":"5"}})"}) {
    const auto page = parse_list_page(body);
    ASSERT_TRUE(page) << page.error().text();
    EXPECT_TRUE(page->items.empty());
  }
}

TEST(ListPage, WhatIsNoList) {
  for (std::string body :
       {"", "null", "[]", "{}", R"({"metadata":{}})", R"({"metadata":{"resourceVersion":"5"},"items":{}})",
        R"({"metadata":{"resourceVersion":"5"},"items":[7]})",
        R"({"metadata":{"resourceVersion":"5"},"items":[{"a":1},{)"}) {
    EXPECT_FALSE(parse_list_page(body)) << body;
  }
}

TEST(ApiStatus, OnlyStatusObjects) {
  const auto status = parse_status(R"({"kind":"Status","message":"m","reason":"Expired","code":410})");
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code, 410);
  EXPECT_EQ(status->reason, "Expired");
  EXPECT_FALSE(parse_status(R"({"kind":"Pod"})"));
  EXPECT_FALSE(parse_status("<html>"));
  EXPECT_FALSE(parse_status(""));
}

}  // namespace
}  // namespace heddle::kube
