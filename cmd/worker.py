from reproq.cli.worker import main

if __name__ == "__main__":
    main()
