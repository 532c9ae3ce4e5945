"""Rank 1 sends so many MiB to rank 0, which prints the payload's bits per second."""

import os
import select
import socket
import sys
import time

megabytes = int(sys.argv[1])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))


def receive():
    server = socket.create_server(address)
    connection, _ = server.accept()
    received = len(connection.recv(1))
    start = time.monotonic()
    while True:
        data = connection.recv(1 << 20)
        if not data:
            break
        received += len(data)
    assert received == megabytes << 20, received
    print(received * 8 / (time.monotonic() - start))


def connect():
    end = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection(address, timeout=20)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            select.select([], [], [], 0.05)  # nobody listens yet


if os.environ["RANK"] == "0":
    receive()
elif os.environ["RANK"] == "1":
    with connect() as sender:
        for _ in range(megabytes):
            sender.sendall(bytes(1 << 20))
