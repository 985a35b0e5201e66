<?php

use Doctrine\ORM\Mapping as ORM;

#[ORM\Entity]
#[ORM\Table(name: 'photos', schema: 'insta5')]
class Photo
{
    #[ORM\Id]
    #[ORM\Column(type: 'bigint', options: ['default' => 'insta5.next_id()'])]
    #[ORM\GeneratedValue(strategy: 'CUSTOM')]
    #[ORM\CustomIdGenerator(class: NextId::class)]
    public string $id;

    #[ORM\Column(type: 'text')]
    public string $title;

    public function __construct(string $title)
    {
        $this->title = $title;
    }
}
