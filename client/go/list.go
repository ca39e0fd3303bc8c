// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Iterator reads a list item by item, and fetches pages as needed:
//
//	list := client.ListTopics(&duetimepb.ListTopicsRequest{})
//	for list.Next(ctx) {
//		fmt.Println(list.Item().Name)
//	}
//	if err := list.Err(); err != nil { ... }
//
// The protos document the effect of changes between two pages. An Iterator holds one page. It is not safe for
// concurrent use.
type Iterator[Item any] struct {
	fetch func(ctx context.Context, token string) (items []Item, next string, err error)
	page  []Item
	item  Item
	token string
	ended bool
	err   error
}

// Next reads the next item. It returns false after the last one and after an error. After an error, another call of
// Next continues: no item is lost or repeated.
func (i *Iterator[Item]) Next(ctx context.Context) bool {
	i.err = nil
	for len(i.page) == 0 {
		if i.ended {
			return false
		}
		page, next, err := i.fetch(ctx, i.token)
		if err == nil && next != "" && next == i.token {
			err = newError(codes.Internal, "the server returned the same page token twice")
		}
		if err != nil {
			i.err = err
			return false
		}
		i.page, i.token, i.ended = page, next, next == ""
	}
	i.item, i.page = i.page[0], i.page[1:]
	return true
}

// Item returns the item that Next read.
func (i *Iterator[Item]) Item() Item { return i.item }

// Err returns the error that made Next return false, or nil at the end of the list.
func (i *Iterator[Item]) Err() error { return i.err }

// listOf makes an Iterator that starts at the page of the request. It works on a copy of the request.
func listOf[Request proto.Message, Page interface{ GetNextPageToken() string }, Item any](request Request,
	fetch func(context.Context, Request, ...grpc.CallOption) (Page, error), items func(Page) []Item) *Iterator[Item] {
	request = proto.Clone(request).(Request)
	field := request.ProtoReflect().Descriptor().Fields().ByName("page_token")
	return &Iterator[Item]{
		token: request.ProtoReflect().Get(field).String(),
		fetch: func(ctx context.Context, token string) ([]Item, string, error) {
			request.ProtoReflect().Set(field, protoreflect.ValueOfString(token))
			page, err := fetch(ctx, request)
			if err != nil {
				return nil, "", err
			}
			return items(page), page.GetNextPageToken(), nil
		},
	}
}
