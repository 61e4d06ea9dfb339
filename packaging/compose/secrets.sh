#!/bin/sh
# Makes the secrets of compose/gateway.yaml in the folder `secrets` next to this file: random passwords, the token of the
# administrator, and a certificate for tests. It replaces none. Put the key of your model server into `models-key`, and your
# own certificate into `gateway.crt` and `gateway.key`.
set -eu
umask 077
cd "$(dirname "$0")"
mkdir -p secrets
cd secrets

random() { openssl rand -hex 24; }

if [ ! -e admin-token ]; then random > admin-token; fi
if [ ! -e postgres-password ]; then
    password=$(random)
    printf '%s' "$password" > postgres-password
    echo "postgres://gateway:$password@postgres/gateway" > store-url
fi
if [ ! -e redis.conf ]; then
    password=$(random)
    cat > redis.conf <<CONFIG
requirepass $password
maxmemory-policy noeviction
appendonly yes
appendfsync everysec
CONFIG
    echo "redis://:$password@redis:6379/0" > limits-url
fi
if [ ! -e models-key ]; then echo "replace-this-key" > models-key; fi
if [ ! -e gateway.crt ]; then
    openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=gateway.example \
        -addext "subjectAltName=DNS:gateway.example,DNS:localhost" -keyout gateway.key -out gateway.crt 2>/dev/null
fi
echo "Wrote $(pwd). Next:"
echo "  sudo chown 65532 admin-token store-url limits-url models-key   # in that folder: they are for the nodes alone"
echo "  sudo chown 999 redis.conf   # the user of the image of Redis"
