// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	duetime "github.com/duetime/duetime/client/go"
	pb "github.com/duetime/duetime/client/go/duetimepb"
)

// when converts the time of a request. nil if there is none.
func when(moment *timestamppb.Timestamp, delay *durationpb.Duration, civil *pb.CivilTime) duetime.When {
	switch {
	case moment != nil:
		return duetime.At(moment.AsTime())
	case delay != nil:
		return duetime.After(delay.AsDuration())
	case civil != nil:
		return duetime.Local{Time: civil.Local, Zone: civil.TimeZone}
	}
	return nil
}

func messages(requests []*pb.ScheduleRequest) []duetime.Message {
	var list []duetime.Message
	for _, request := range requests {
		list = append(list, message(request))
	}
	return list
}

// streamRequest is the fields of the ops of streams.
type streamRequest struct {
	Stream   string            `json:"stream"`
	Messages []json.RawMessage `json:"messages"`
}

func (d *driver) addStreams() {
	d.ops["stream_open"] = func(r *request) (any, error) {
		var fields streamRequest
		if err := r.read(&fields); err != nil {
			return nil, err
		}
		client, err := d.clients.find(r.Client)
		if err != nil {
			return nil, err
		}
		stream, err := client.OpenScheduleStream(context.Background(), duetime.ScheduleStreamOptions{},
			func(number int64, result duetime.ScheduleResult) {
				event := resultJSON(result.Response, result.Err)
				event["event"], event["stream"], event["number"] = "result", fields.Stream, number
				emit(event)
			})
		if err != nil {
			return nil, err
		}
		d.streams.put(fields.Stream, stream)
		return object{}, nil
	}
	d.addStream("stream_send", func(fields streamRequest, stream *duetime.ScheduleStream) (any, error) {
		var frame []*pb.ScheduleRequest
		for _, text := range fields.Messages {
			frame = append(frame, &pb.ScheduleRequest{})
			if err := parse(text, frame[len(frame)-1]); err != nil {
				return nil, err
			}
		}
		return object{}, stream.Send(messages(frame)...)
	})
	d.addStream("stream_finish", func(fields streamRequest, stream *duetime.ScheduleStream) (any, error) {
		d.streams.remove(fields.Stream)
		var failure any
		if err := stream.Finish(); err != nil {
			failure = errorJSON(err)
		}
		unanswered := []any{}
		for _, message := range stream.Unanswered() {
			unanswered = append(unanswered, toJSON(message.Proto()))
		}
		return object{"answered": stream.Answered(), "unanswered": unanswered, "error": failure}, nil
	})
}

// addStream registers an op of an open stream.
func (d *driver) addStream(op string, run func(streamRequest, *duetime.ScheduleStream) (any, error)) {
	d.ops[op] = func(r *request) (any, error) {
		var fields streamRequest
		if err := r.read(&fields); err != nil {
			return nil, err
		}
		stream, err := d.streams.find(fields.Stream)
		if err != nil {
			return nil, err
		}
		return run(fields, stream)
	}
}
