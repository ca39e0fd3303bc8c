# SPDX-License-Identifier: Apache-2.0
"""All messages and enums of the protos, under one name: pb.Topic, pb.ListRequest, pb.ON_CONFLICT_REPLACE."""

from duetime.v1.access_pb2 import *  # noqa: F403
from duetime.v1.admin_pb2 import *  # noqa: F403
from duetime.v1.backup_pb2 import *  # noqa: F403
from duetime.v1.failure_pb2 import *  # noqa: F403
from duetime.v1.forecast_pb2 import *  # noqa: F403
from duetime.v1.lifecycle_pb2 import *  # noqa: F403
from duetime.v1.message_pb2 import *  # noqa: F403
from duetime.v1.messages_pb2 import *  # noqa: F403
from duetime.v1.operation_pb2 import *  # noqa: F403
from duetime.v1.recurrence_pb2 import *  # noqa: F403
from duetime.v1.schedule_pb2 import *  # noqa: F403
from duetime.v1.subscribe_pb2 import *  # noqa: F403
from duetime.v1.subscription_pb2 import *  # noqa: F403
from duetime.v1.test_clock_pb2 import *  # noqa: F403
from duetime.v1.topic_pb2 import *  # noqa: F403
