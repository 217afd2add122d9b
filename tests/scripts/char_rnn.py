"""A recurrent network that learns to write, character by character, the way people write it for PyTorch."""

import argparse
import pydoc_data.topics
import random
import string

import torch
import torch.nn as nn
from torch.autograd import Variable

all_characters = string.printable
n_characters = len(all_characters)
file = "".join(c for c in "\n".join(pydoc_data.topics.topics.values()) if c in all_characters)
file_len = len(file)


class CharRNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size, model="gru", n_layers=1):
        super().__init__()
        self.model = model.lower()
        self.hidden_size = hidden_size
        self.n_layers = n_layers

        self.encoder = nn.Embedding(input_size, hidden_size)
        if self.model == "gru":
            self.rnn = nn.GRU(hidden_size, hidden_size, n_layers)
        elif self.model == "lstm":
            self.rnn = nn.LSTM(hidden_size, hidden_size, n_layers)
        self.decoder = nn.Linear(hidden_size, output_size)

    def forward(self, input, hidden):
        batch_size = input.size(0)
        encoded = self.encoder(input)
        output, hidden = self.rnn(encoded.view(1, batch_size, -1), hidden)
        output = self.decoder(output.view(batch_size, -1))
        return output, hidden

    def init_hidden(self, batch_size):
        if self.model == "lstm":
            return (
                Variable(torch.zeros(self.n_layers, batch_size, self.hidden_size)),
                Variable(torch.zeros(self.n_layers, batch_size, self.hidden_size)),
            )
        return Variable(torch.zeros(self.n_layers, batch_size, self.hidden_size))


def char_tensor(string):
    tensor = torch.zeros(len(string)).long()
    for c in range(len(string)):
        tensor[c] = all_characters.index(string[c])
    return tensor


def random_training_set(chunk_len, batch_size):
    inp = torch.LongTensor(batch_size, chunk_len)
    target = torch.LongTensor(batch_size, chunk_len)
    for bi in range(batch_size):
        start_index = random.randint(0, file_len - chunk_len - 1)
        end_index = start_index + chunk_len + 1
        chunk = file[start_index:end_index]
        inp[bi] = char_tensor(chunk[:-1])
        target[bi] = char_tensor(chunk[1:])
    return Variable(inp), Variable(target)


def train(args, decoder, decoder_optimizer, criterion, inp, target):
    hidden = decoder.init_hidden(args.batch_size)
    decoder.zero_grad()
    loss = 0
    for c in range(args.chunk_len):
        output, hidden = decoder(inp[:, c], hidden)
        loss += criterion(output.view(args.batch_size, -1), target[:, c])
    loss.backward()
    nn.utils.clip_grad_norm_(decoder.parameters(), args.clip)
    decoder_optimizer.step()
    return loss.item() / args.chunk_len


def generate(decoder, prime_str="A", predict_len=100, temperature=0.8):
    hidden = decoder.init_hidden(1)
    prime_input = Variable(char_tensor(prime_str).unsqueeze(0))
    predicted = prime_str
    with torch.no_grad():
        # Use priming string to "build up" hidden state
        for p in range(len(prime_str) - 1):
            _, hidden = decoder(prime_input[:, p], hidden)
        inp = prime_input[:, -1]
        for _ in range(predict_len):
            output, hidden = decoder(inp, hidden)
            # Sample from the network as a multinomial distribution
            output_dist = output.data.view(-1).div(temperature).exp()
            top_i = torch.multinomial(output_dist, 1)[0]
            # Add predicted character to string and use as next input
            predicted_char = all_characters[top_i]
            predicted += predicted_char
            inp = Variable(char_tensor(predicted_char).unsqueeze(0))[:, -1]
    return predicted


def parse(argv=None):
    argparser = argparse.ArgumentParser()
    argparser.add_argument("--model", type=str, default="gru")
    argparser.add_argument("--n_epochs", type=int, default=200)
    argparser.add_argument("--print_every", type=int, default=50)
    argparser.add_argument("--hidden_size", type=int, default=100)
    argparser.add_argument("--n_layers", type=int, default=2)
    argparser.add_argument("--learning_rate", type=float, default=0.01)
    argparser.add_argument("--chunk_len", type=int, default=50)
    argparser.add_argument("--batch_size", type=int, default=20)
    argparser.add_argument("--clip", type=float, default=5.0)
    argparser.add_argument("--seed", type=int, default=0)
    return argparser.parse_args(argv)


def train_all(args, decoder):
    decoder_optimizer = torch.optim.Adam(decoder.parameters(), lr=args.learning_rate)
    criterion = nn.CrossEntropyLoss()
    all_losses = []
    for epoch in range(1, args.n_epochs + 1):
        loss = train(
            args, decoder, decoder_optimizer, criterion, *random_training_set(args.chunk_len, args.batch_size)
        )
        all_losses.append(loss)
        if epoch % args.print_every == 0:
            print(f"[({epoch} {epoch / args.n_epochs * 100:.0f}%) {loss:.4f}]")
            print(generate(decoder, "Wh", 100), "\n")
    return all_losses


def main(argv=None):
    args = parse(argv)
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    decoder = CharRNN(n_characters, args.hidden_size, n_characters, model=args.model, n_layers=args.n_layers)
    return train_all(args, decoder)


if __name__ == "__main__":
    main()
