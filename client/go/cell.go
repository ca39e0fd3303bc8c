// SPDX-License-Identifier: Apache-2.0

package duetime

import (
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/health" // The health checks that followTheLeader asks for.
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

const (
	// Calls go to the member whose health is SERVING, which is the leader. While no member leads, calls wait for one
	// until their deadline.
	followTheLeader = `{"loadBalancingConfig": [{"round_robin": {}}],
		"healthCheckConfig": {"serviceName": "duetime.v1.Messages"},
		"methodConfig": [{"name": [{}], "waitForReady": true}]}`
	// The pause after NOT_LEADER. The health of the new leader arrives meanwhile.
	leaderPause = 50 * time.Millisecond
	// Find a member whose machine vanished. The server allows a ping every second.
	memberPing    = 15 * time.Second
	memberPingMax = 3 * time.Second
)

// cell returns true if the options name several servers, the members of a cell.
func (o Options) cell() bool { return strings.Contains(o.Server, ",") }

// refusedByStandby returns true if a member refused the call because another one leads. The call changed nothing, so
// any call may be made again.
func (o Options) refusedByStandby(failure *Error) bool {
	return o.cell() && failure.Reason == "NOT_LEADER"
}

// cellTarget returns the target of the members, and the options that it needs.
func (o Options) cellTarget() (string, []grpc.DialOption, error) {
	var state resolver.State
	for _, address := range strings.Split(o.Server, ",") {
		address = strings.TrimSpace(address)
		if _, _, err := net.SplitHostPort(address); err != nil {
			return "", nil, newError(codes.InvalidArgument, "each address of several must be host:port: "+err.Error())
		}
		// The certificate of each member is checked against the member's own name.
		state.Addresses = append(state.Addresses, resolver.Address{Addr: address, ServerName: address})
	}
	members := manual.NewBuilderWithScheme("cell")
	members.InitialState(state)
	return "cell:///", []grpc.DialOption{
		grpc.WithResolvers(members),
		grpc.WithDefaultServiceConfig(followTheLeader),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: memberPing, Timeout: memberPingMax}),
	}, nil
}
