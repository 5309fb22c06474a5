#!/bin/sh
mkdir -p "$2"
